#!/usr/bin/env python3
"""The programs of docs/examples/ are shown, word for word, and links between the project's texts lead
somewhere."""
import pathlib
import re
import sys

PAGES = ("README.md", "docs/heap.md", "docs/how-to/use-from-c.md", "docs/how-to/programs-for-umap.md")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def check_examples(root):
    shown = "".join((root / page).read_text() for page in PAGES)
    for example in sorted((root / "docs" / "examples").iterdir()):
        if example.suffix in (".c", ".cpp", ".py") and example.read_text().strip() not in shown:
            yield f"none of {', '.join(PAGES)} shows {example.relative_to(root)} word for word"


def anchors(text):
    """What GitHub makes of the headings: their letters, digits, hyphens and underscores in lower case, spaces as hyphens, and a
    number after what has been there before."""
    found = set()
    for heading in HEADING.findall(FENCED.sub("", text.read_text())):
        # Of a link its words are shown.
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        numbered = (f"{name}-{number}" for number in range(1, len(found) + 2))
        found.add(name if name not in found else next(other for other in numbered if other not in found))
    return found


def check_links(root):
    texts = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.md")]
    headings = {}
    for text in texts:
        for link, anchor in LINK.findall(FENCED.sub("", text.read_text())):
            if "://" in link or link.startswith("mailto:"):
                continue
            target = text.parent / link if link else text
            if not target.exists():
                yield f"{text.relative_to(root)}: the link {link} leads nowhere"
            elif anchor and target.suffix == ".md":
                target = target.resolve()
                if anchor not in headings.setdefault(target, anchors(target)):
                    yield f"{text.relative_to(root)}: {target.name} has no heading #{anchor}"


def main(root):
    complaints = [*check_examples(root), *check_links(root)]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
