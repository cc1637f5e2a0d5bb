"""Pages of the documentation as data: headings, links, and fenced blocks with the comments that say how they are tested."""
import os, re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>.*)$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


class Block:
    """A fenced block. `marks` are the comments right above it: <!-- file: NAME -->, <!-- not run: REASON -->, <!-- setup CODE -->."""

    def __init__(self, page, line, language, marks):
        self.page, self.line, self.language, self.marks, self.lines = page, line, language, marks, []

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    @property
    def place(self):
        return f"{self.page}:{self.line}"


class Page:
    def __init__(self, path):
        self.path = path
        with open(os.path.join(ROOT, path)) as f:
            self.source = f.read()
        self.blocks, self.prose = [], []  # prose: (line number, text outside of blocks and comments)
        self.parse()

    def parse(self):
        block, fence, comment, marks = None, None, None, {}
        for number, line in enumerate(self.source.split("\n"), 1):
            if block:
                if line.strip() == fence:
                    self.blocks.append(block)
                    block, marks = None, {}
                else:
                    block.lines.append(line)
            elif comment is not None or line.startswith("<!--"):
                comment = line if comment is None else comment + "\n" + line
                if "-->" in line:
                    name, _, value = comment[4:comment.index("-->")].strip().partition("\n" if comment[4:].lstrip().startswith("setup") else ":")
                    marks[name.strip()] = value.strip("\n") if name.strip() == "setup" else value.strip()
                    comment = None
            elif match := FENCE.match(line):
                fence = match["fence"]
                block = Block(self.path, number, match["info"].strip().split(" ")[0], marks)
            else:
                if line.strip():
                    marks = {}
                self.prose.append((number, line))
        if block or comment is not None:
            raise SystemExit(f"{self.path}: a block or comment has no end")

    def anchors(self):
        """What a link may name after '#': the headings, spelled as hosts and mkdocs do."""
        out = set()
        for _, line in self.prose:
            if match := re.match(r"#{1,6} +(.*)", line):
                word = re.sub(r"[^\w\s-]", "", re.sub(r"`", "", match[1])).strip().lower()
                out.add(re.sub(r"[-\s]+", "-", word))
        return out

    def links(self):
        for number, line in self.prose:
            for match in LINK.finditer(re.sub(r"`[^`]*`", "code", line)):
                yield number, match["target"]

    def paths(self):
        """Paths of the tree that the page names in backticks."""
        top = "|".join(sorted(name for name in os.listdir(ROOT) if not name.startswith((".", "build"))))
        for number, line in self.prose:
            for match in re.finditer(rf"`((?:{top})/[\w./*{{}},-]+)`", line):
                yield number, match[1]
