"""Follows every link of a directory of HTML pages that stays in it. Fails for files and anchors that are not there."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Page(HTMLParser):
    """The anchors of a page, and its links with their lines."""

    def __init__(self, file):
        super().__init__()
        self.anchors, self.links = {""}, []
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        self.links += [(self.getpos()[0], attributes[name]) for name in ("href", "src") if attributes.get(name)]


root = Path(sys.argv[1]).resolve()
pages = {file: Page(file) for file in root.rglob("*.html")}
wrong, followed = [], 0
for file, page in sorted(pages.items()):
    for line, link in page.links:
        # 404.html is shown at any address, so its links begin at the root.
        if re.match(r"[a-z]+:", link) or file.name == "404.html":
            continue
        followed += 1
        path, _, anchor = link.partition("#")
        target = (file.parent / unquote(path)).resolve() if path else file
        if not (target.is_file() and target.is_relative_to(root)):
            wrong.append(f"{file.relative_to(root)}:{line}: there is no {link}")
        elif target in pages and unquote(anchor) not in pages[target].anchors:
            wrong.append(f"{file.relative_to(root)}:{line}: there is no anchor {link}")
print("\n".join(wrong) if wrong else f"the book has {len(pages)} pages; {followed} links lead somewhere")
sys.exit(bool(wrong) or followed < 500)
