#!/usr/bin/env python3
"""Installs the library and builds and runs programs for UMap against it, outside the tree.

umap_install.py SOURCE BUILD CMAKE C_COMPILER CXX_COMPILER: the programs of tests/umap by find_package(UMAP) and
find_package(umap), in C99 and C++11, and by -lumap and the name of the archive alone, where the library is shared; and
the way that a persistent heap uses it: a reservation, UMAP_FIXED in it, and uunmap() of a page more; and the program of
docs/how-to/programs-for-umap.md, which has to say what the page says.
"""
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
from install import run  # noqa: E402

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES {language})
set(CMAKE_C_STANDARD 99)
set(CMAKE_CXX_STANDARD {standard})
find_package({package} REQUIRED)
add_executable(program {source})
target_include_directories(program PRIVATE ${{UMAP_INCLUDE_DIRS}})
target_link_libraries(program PRIVATE {libraries})
"""


def build_with_cmake(source, prefix, folder, cmake, compilers, package, libraries, standard):
    folder.mkdir()
    (folder / "data").mkdir()
    language = "C" if source.suffix == ".c" else "CXX"
    for file in (source, source.parent / "expect.h"):
        shutil.copy(file, folder)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(
        language=language, standard=standard, package=package, source=source.name, libraries=libraries))
    compiler = f"-DCMAKE_{language}_COMPILER={compilers[language == 'CXX']}"
    run([cmake, "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", compiler])
    run([cmake, "--build", folder / "build"])
    print(f"{source.name}, {package}, {libraries}:", run([folder / "build" / "program", folder / "data"]))


def build_by_hand(source, prefix, folder, compilers):
    library = next(prefix.rglob("libumap.so"), None)
    if library is None:
        print(f"{source.name} by -lumap: skipped, this build is static")
        return
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    for how in (["-L", library.parent, "-lumap"], [library.parent / "libumap.a"]):
        program = folder / "by-hand"
        run([compilers[1], "-std=c++17", f"-I{prefix / 'include'}", "-o", program, source, *how])
        (folder / "data").mkdir(exist_ok=True)
        print(f"{source.name}, {how[-1]}:", run([program, folder / "data"], env=environment))
        # Also where the loader has to find the library that this one is made on by itself.
        needed = run(["ldd", program], env=environment)
        if "not found" in needed:
            print(needed)
            sys.exit(1)


def build_example(source, prefix, folder, cmake, compilers):
    """The program of the page, by CMake and, where the library is shared, as the page says."""
    folder.mkdir()
    shutil.copy(source, folder)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(
        language="CXX", standard=11, package="UMAP", source=source.name, libraries="UMAP::umap"))
    run([cmake, "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_CXX_COMPILER={compilers[1]}"])
    run([cmake, "--build", folder / "build"])
    programs = [folder / "build" / "program"]
    library = next(prefix.rglob("libumap.so"), None)
    if library is not None:
        programs.append(folder / "by-hand")
        run([compilers[1], source, "-o", programs[-1], f"-I{prefix / 'include'}", f"-L{library.parent}", "-lumap"])
    for program in programs:
        said = run([program], cwd=folder, env={**os.environ, "UMAP_PAGESIZE": "65536", "UMAP_BUFSIZE": "1024",
                                               "LD_LIBRARY_PATH": str(library.parent) if library else ""})
        page = (source.parents[1] / "how-to" / "programs-for-umap.md").read_text()
        if f"```text\n{said}\n```" not in page:
            print(f"the page has not what {program} said: {said}")
            sys.exit(1)
    print(f"{source.name}: built and ran in {len(programs)} ways")


def main(source, build, cmake, *compilers):
    programs = source / "tests" / "umap"
    with tempfile.TemporaryDirectory(prefix="tiermap-umap-", dir=build) as scratch:
        scratch = pathlib.Path(scratch)
        prefix = scratch / "prefix"
        run([cmake, "--install", build, "--prefix", prefix, "--component", "Development"])
        for number, (name, package, libraries, standard) in enumerate((
                ("use_everything.c", "UMAP 2.1", "UMAP::umap", 11), ("use_stores.cpp", "umap", "umap", 11),
                ("heap_like.cpp", "UMAP", "${UMAP_LIBRARIES}", 17))):
            build_with_cmake(programs / name, prefix, scratch / str(number), cmake, compilers, package, libraries,
                             standard)
        build_example(source / "docs" / "examples" / "umap_file.cpp", prefix, scratch / "example", cmake, compilers)
        build_by_hand(programs / "heap_like.cpp", prefix, scratch, compilers)
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:]))
