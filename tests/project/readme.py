#!/usr/bin/env python3
"""The programs of docs/examples/ are shown, word for word, and links between the project's texts lead
somewhere."""
import pathlib
import re
import sys

PAGES = ("README.md", "docs/heap.md", "docs/how-to/use-from-c.md", "docs/how-to/programs-for-umap.md")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def check_examples(root):
    shown = "".join((root / page).read_text() for page in PAGES)
    for example in sorted((root / "docs" / "examples").iterdir()):
        if example.suffix in (".c", ".cpp", ".py") and example.read_text().strip() not in shown:
            yield f"none of {', '.join(PAGES)} shows {example.relative_to(root)} word for word"


def check_links(root):
    texts = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.md")]
    for text in texts:
        for link in LINK.findall(text.read_text()):
            if "://" not in link and not link.startswith("mailto:") and not (text.parent / link).exists():
                yield f"{text.relative_to(root)}: the link {link} leads nowhere"


def main(root):
    complaints = [*check_examples(root), *check_links(root)]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
