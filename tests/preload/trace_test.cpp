// TIERMAP_TRACE under `tiermap run`: the engine is there to the last, and the trace has its end all the same.
#include <gtest/gtest.h>

#include "observe/trace_file.hpp"
#include "preload/served_program.hpp"

namespace tiermap {
namespace {

TEST(ServedTrace, IsWholeHoweverSoonTheProgramEnds) {
  skip_where_nothing_is_served();
  if (::testing::Test::IsSkipped()) {
    return;
  }
  const ProgramRuns runs;
  // exec() ends what the shell's process was, and _exit() its child.
  for (const char* ending : {"", "os._exit(0)", "os.execv('/bin/nothing', ['nothing'])"}) {
    std::ofstream(runs.path("program.py")) << "import mmap, os\n"
                                              "with open('file', 'wb') as file: file.truncate(4 << 20)\n"
                                              "with open('file', 'rb') as file:\n"
                                              "  mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
                                              "sum = sum(mapped[::4096])\n"
                                              "try:\n"
                                              "  pass; "
                                           << ending << "\nexcept OSError: pass\n";
    const std::string trace = runs.path("trace");
    std::remove(trace.c_str());
    const ProgramResult result =
        runs.plain("env TIERMAP_TRACE=" + trace + " " + runs.tiermap() + " -- /usr/bin/python3 program.py");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    TraceReader reader(trace);
    int accesses = 0;
    while (const std::optional<TraceRecord> record = reader.next()) {
      accesses += record->kind == TraceKind::fill || record->kind == TraceKind::first_use ? 1 : 0;
    }
    EXPECT_GT(accesses, 0) << ending;
    EXPECT_TRUE(reader.complete()) << ending;
  }
}

}  // namespace
}  // namespace tiermap
