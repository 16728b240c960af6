#!/usr/bin/env python3
"""Makes the .deb from the build tree and looks inside: package.py SOURCE BUILD CPACK VERSION."""
import pathlib
import shutil
import subprocess
import sys
import tempfile


def output_of(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
        sys.exit(1)
    return result.stdout


def programs(source):
    """Every program of the project: the command, and a folder of apps/ with a main.cpp for each of the others."""
    applications = sorted(found.parent.name for found in (source / "apps").glob("*/main.cpp"))
    if len(applications) < 2:
        sys.exit(f"{source / 'apps'} holds no programs: {applications}")
    return ["tiermap", *(f"tiermap-{name}" for name in applications)]


def main(source, build, cpack, version):
    for tool in ("dpkg-shlibdeps", "dpkg-deb", "file"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed (packages dpkg-dev and file)")
            return 77
    missing = [name for name in programs(source) if not (build / "bin" / name).exists()]
    if missing:
        print(f"skipped: {', '.join(missing)} not built")
        return 77
    with tempfile.TemporaryDirectory(prefix="tiermap-package-") as folder:
        output_of(cpack, "-G", "DEB", "--config", build / "CPackConfig.cmake", "-B", folder)
        package = next(pathlib.Path(folder).glob("*.deb"))
        names = {line.split()[-1] for line in output_of("dpkg-deb", "-c", package).splitlines()}
        fields = dict(line.strip().split(": ", 1) for line in output_of("dpkg-deb", "-f", package).splitlines()
                      if ": " in line and not line.startswith(" "))
    good = True
    for wanted in (*(f"usr/bin/{name}" for name in programs(source)), "include/tiermap/tiermap.hpp",
                   "include/tiermap/version.hpp", "cmake/tiermap/tiermap-config.cmake", "pkgconfig/tiermap.pc", "include/umap/store/SparseStore.h",
                   "cmake/UMAP/UMAPConfig.cmake",
                   "doc/tiermap/LICENSE"):
        if not any(name.endswith(wanted) for name in names):
            print(f"{package.name} does not hold {wanted}")
            good = False
    for library in ("libc6", "libstdc++6", "liburing2", "libyaml-cpp0.7"):
        if library not in fields.get("Depends", ""):
            print(f"{package.name} does not depend on {library}: {fields.get('Depends')}")
            good = False
    if fields.get("Version", "").split("-")[0] != version:
        print(f"{package.name} is version {fields.get('Version')}, not {version}")
        good = False
    print(f"{package.name}: {len(names)} files, depends on {fields.get('Depends')}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
