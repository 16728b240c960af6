#!/usr/bin/env python3
"""A folder of src/ may include its own headers and those of the layers below it, never those above."""
import pathlib
import re
import sys

LAYERS = ["platform", "config", "observe", "store", "tier", "cluster", "cache", "fault", "region", "vector", "shared", "heap", "umap_interface", "parquet_codec"]
# Whose headers, in include/, a layer stands for.
PUBLIC = {"tiermap": None, "umap": "umap_interface"}
CATCH_ALL = {"utils", "util", "common", "misc", "helpers", "helper"}
LONGEST = 500
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def source_files(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".hpp", ".c", ".cpp", ".py", ".sh"):
                yield path


def check_includes(root):
    """One complaint for each include that points upwards or nowhere."""
    source = root / "src"
    for path in source_files(root, "src"):
        layer = path.relative_to(source).parts[0]
        if layer not in LAYERS:
            yield f"{path}: src/{layer} is not a layer: choose one of {', '.join(LAYERS)}, or add it to layering.py"
            continue
        for included in INCLUDE.findall(path.read_text()):
            target = included.split("/")[0]
            if target in PUBLIC:
                if PUBLIC[target] not in (None, layer):
                    yield f'{path}: #include "{included}": {target}/ is for src/{PUBLIC[target]} alone'
                continue
            if target not in LAYERS:
                yield f'{path}: #include "{included}" names no layer: write "folder/file.hpp"'
            elif LAYERS.index(target) > LAYERS.index(layer):
                yield f'{path}: #include "{included}": {layer} is below {target} and may not include it'
            elif not (source / included).exists():
                yield f'{path}: #include "{included}": there is no such file below src/'


def check_public_includes(root):
    """Public headers may include nothing but public headers."""
    for path in source_files(root, "include"):
        for included in INCLUDE.findall(path.read_text()):
            library = path.relative_to(root / "include").parts[0]
            if not included.startswith(f"{library}/"):
                yield f'{path}: #include "{included}": a public header includes only {library}/'


def check_shape(root):
    """File length and names."""
    for path in source_files(root, "include", "src", "apps", "tools", "bench", "tests", "scripts", "python"):
        lines = path.read_text().count("\n")
        if lines > LONGEST:
            yield f"{path}: {lines} lines, more than {LONGEST}: split it by what it does"
        names = {path.stem.lower(), *(part.lower() for part in path.relative_to(root).parts[:-1])}
        for name in sorted(names & CATCH_ALL):
            yield f"{path}: '{name}' says nothing: name it for what it holds"


def check_readmes(root):
    """Each layer says in a README what lives there and what it may include."""
    for layer in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        if any(layer.rglob("*.cpp")) and not (layer / "README.md").exists():
            yield f"{layer}: no README.md"


def main(root):
    complaints = [*check_includes(root), *check_public_includes(root), *check_shape(root), *check_readmes(root)]
    for complaint in complaints:
        print(complaint)
    checked = sum(1 for _ in source_files(root, "src"))
    print(f"{checked} sources below src/, {len(complaints)} complaints")
    return 1 if complaints or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
