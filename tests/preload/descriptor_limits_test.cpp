// Programs that map many files, or may open few.
#include "preload/run_fixture.hpp"

namespace tiermap {
namespace {

// Of a program that maps more files than its soft limit has room for, mmap() taking no descriptor.
TEST_F(ServedRunTest, TheSoftLimitOfOpenFilesIsRaisedInTime) {
  const std::string report = report_of_python(R"(
import mmap, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
mapped = []
for number in range(60):
    with open(f"file{number}", "w+b") as file:
        file.truncate(2 << 20)
        mapped.append(mmap.mmap(file.fileno(), 0))
        mapped[-1][5] = 7
free = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
)");
  EXPECT_NE(report.find("60 mappings served"), std::string::npos) << report;
}

// Each mapping takes three; further ones are the kernel's.
TEST_F(ServedRunTest, HalfOfTheDescriptorsAreTheProgramsOwn) {
  const std::string report = report_of_python(R"(
import mmap, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
mapped = []
for number in range(30):
    with open(f"file{number}", "w+b") as file:
        file.truncate(2 << 20)
        mapped.append(mmap.mmap(file.fileno(), 0))
        mapped[-1][5] = 7
free = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
)");
  EXPECT_NE(report.find("half of the descriptors that the program may have are in use"), std::string::npos) << report;
}

// Some of these limits are used up by the engine's own start, which ended the program.
TEST_F(ServedRunTest, ProgramsThatMayOpenVeryFewFilesRun) {
  static_cast<void>(report_of_python(R"(
import mmap, os, resource, sys
with open("file", "w+b") as file:
    file.truncate(2 << 20)
    for limit in range(file.fileno() + 2, file.fileno() + 24):
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            mapped = mmap.mmap(file.fileno(), 0)
            mapped[limit] = limit
            os._exit(mapped[limit] - limit)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"with {limit} descriptors the program did not end as it should")
    file.seek(0)
    if file.read(64)[file.fileno() + 2:file.fileno() + 24] != bytes(range(file.fileno() + 2, file.fileno() + 24)):
        sys.exit("what was stored is not in the file")
)"));
}

// An engine that can serve nothing for want of descriptors leaves those that it has to the program.
TEST_F(ServedRunTest, ProgramsThatMayOpenVeryFewFilesKeepThemWhereNothingIsServed) {
  static_cast<void>(report_of_python(R"(
import mmap, os, resource, sys
def free():
    opened = []
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for descriptor in opened:
        os.close(descriptor)
    return len(opened)
with open("file", "w+b") as file:
    file.truncate(2 << 20)
    for limit in range(file.fileno() + 3, file.fileno() + 40):
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            before = free()
            mapped = mmap.mmap(file.fileno(), 0)  # With a copy of the descriptor.
            after = free()
            if after != before - 1:
                with open("/proc/self/maps") as maps:
                    os._exit(os.path.realpath("file") in maps.read())
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"with {limit} descriptors the program has fewer than without Tiermap, and nothing is served")
)"));
}

}  // namespace
}  // namespace tiermap
