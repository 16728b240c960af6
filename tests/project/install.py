#!/usr/bin/env python3
"""Installs the library and builds and runs docs/examples/ against it, outside the tree.

install.py SOURCE BUILD CMAKE C_COMPILER CXX_COMPILER: each example once by CMake's find_package(tiermap) and once by
pkg-config; the programs, where they were built, have to answer --help.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

EXPECTED = {
    "map_file": "33554432 words in 64 MiB of memory, the last one is 33554431",
    "heap": "Berlin-Dahlem has 1000 records, the last one of minute 999",
}

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES {language})
find_package(tiermap 0.1 REQUIRED)
add_executable(program {source})
target_link_libraries(program PRIVATE tiermap::tiermap)
"""


def run(command, **arguments):
    """Runs a command; on failure shows what it said and ends the test."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                            timeout=240, **arguments)
    if result.returncode != 0:
        print(f"failed ({result.returncode}): {shlex.join(str(part) for part in command)}")
        print(result.stdout + result.stderr)
        sys.exit(1)
    return result.stdout.strip()


def check_output(program, example, folder, how, environment=None):
    """Runs the example in an empty folder."""
    work = folder / "work"
    work.mkdir()
    said = run([program], cwd=work, env=environment)
    expected = EXPECTED[example.stem]
    if said != expected:
        print(f"{program}: expected '{expected}', got '{said}'")
        sys.exit(1)
    shutil.rmtree(work)
    print(f"{program.parent.name}: built by {how} and ran")


def build_with_cmake(example, prefix, folder, cmake, compilers):
    is_c = example.suffix == ".c"
    shutil.copy(example, folder)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(
        language="C" if is_c else "CXX", source=example.name))
    compiler = f"-DCMAKE_C_COMPILER={compilers[0]}" if is_c else f"-DCMAKE_CXX_COMPILER={compilers[1]}"
    run([cmake, "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", compiler])
    run([cmake, "--build", folder / "build"])
    check_output(folder / "build" / "program", example, folder, "CMake")


def build_with_pkg_config(example, prefix, folder, compilers):
    config = next(prefix.rglob("tiermap.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(config), "LD_LIBRARY_PATH": str(config.parent)}
    flags = shlex.split(run(["pkg-config", "--cflags", "--libs", "tiermap"], env=environment))
    standard = ["-std=c11"] if example.suffix == ".c" else ["-std=c++20"]
    compiler = compilers[0] if example.suffix == ".c" else compilers[1]
    program = folder / "program"
    run([compiler, *standard, "-o", program, example, *flags], env=environment)
    check_output(program, example, folder, "pkg-config", environment)


def run_from_python(example, prefix, folder):
    """The example in Python needs nothing but the shared library; a static build has none."""
    shared = next(prefix.rglob("libtiermap.so"), None)
    if shared is None:
        print(f"{example.name}: skipped, this build is static")
        return
    work = folder / "work"
    work.mkdir()
    said = run([sys.executable, example], cwd=work, env={**os.environ, "LD_LIBRARY_PATH": str(shared.parent)})
    expected = EXPECTED[example.stem]
    if said != expected:
        print(f"{example.name}: expected '{expected}', got '{said}'")
        sys.exit(1)
    print(f"{example.name}: ran")


def check_programs(build, prefix, cmake):
    """Every installed program starts from where it was installed."""
    if not (build / "bin" / "tiermap").exists():
        return
    run([cmake, "--install", build, "--prefix", prefix, "--component", "Programs"])
    programs = sorted((prefix / "bin").iterdir())
    for program in programs:
        run([program, "--help"])
    print(f"{len(programs)} installed programs answer --help")


def main(source, build, cmake, *compilers):
    # That of umap/umap.h is umap_install.py's.
    examples = sorted(path for path in (source / "docs" / "examples").iterdir()
                      if path.suffix in (".c", ".cpp") and path.stem != "umap_file")
    wanted = {".c", ".cpp"} if (source / "include" / "tiermap" / "tiermap.h").exists() else {".cpp"}
    if {path.suffix for path in examples} != wanted:
        print(f"docs/examples has {[path.name for path in examples]}: needs one of each of {sorted(wanted)}")
        return 1
    with tempfile.TemporaryDirectory(prefix="tiermap-install-") as scratch:
        prefix = pathlib.Path(scratch) / "prefix"
        run([cmake, "--install", build, "--prefix", prefix, "--component", "Development"])
        for example in examples:
            for how in ("cmake", "pkg-config"):
                folder = pathlib.Path(scratch) / f"{example.stem}-{example.suffix[1:]}-{how}"
                folder.mkdir()
                if how == "cmake":
                    build_with_cmake(example, prefix, folder, cmake, compilers)
                else:
                    build_with_pkg_config(example, prefix, folder, compilers)
        run_from_python(source / "docs" / "examples" / "map_file.py", prefix, pathlib.Path(scratch))
        check_programs(build, prefix, cmake)
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:]))
