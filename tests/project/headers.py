#!/usr/bin/env python3
"""Each public header compiles by itself: headers.py SOURCE BUILD C_COMPILER CXX_COMPILER."""
import pathlib
import subprocess
import sys
import tempfile

# Named as LLNL/umap names it.
CXX_ONLY = {"umap/store/SparseStore.h"}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]


def compiles(compiler, language, standard, header, includes):
    """Compiles two inclusions of the header, so that a missing guard shows as well."""
    with tempfile.TemporaryDirectory() as folder:
        suffix = ".c" if language == "c" else ".cpp"
        source = pathlib.Path(folder) / ("alone" + suffix)
        source.write_text(f'#include "{header}"\n#include "{header}"\nint main(void) {{ return 0; }}\n')
        command = [compiler, "-x", language, f"-std={standard}", "-fsyntax-only", *WARNINGS,
                   *[f"-I{path}" for path in includes], str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            print(f"{header} as {standard}:\n{result.stderr}")
        return result.returncode == 0


def main(source, build, c_compiler, cxx_compiler):
    includes = [source / "include", build / "include"]
    headers = sorted(str(path.relative_to(folder)) for folder in includes for path in folder.rglob("*")
                     if path.suffix in (".h", ".hpp"))
    good = True
    for header in headers:
        for standard in ("c++20",) if header.startswith("tiermap/") else ("c++11", "c++20"):
            good &= compiles(cxx_compiler, "c++", standard, header, includes)
        if header.endswith(".h") and header not in CXX_ONLY:
            good &= compiles(c_compiler, "c", "c99", header, includes)
    print(f"{len(headers)} public headers, each compiled by itself")
    return 0 if good and headers else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
