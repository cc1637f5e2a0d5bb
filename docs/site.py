"""Hooks of mkdocs: README.md is the first page, and what pages link outside of docs/ becomes a page too, so that the site stands alone."""
import os, posixpath, re

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python", ".sh": "bash"}
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.M | re.S)


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def name_of(path):
    """The page that a file of the tree gets, None where it has none."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path[len("docs/"):]
    if not os.path.isfile(os.path.join(ROOT, path)):
        return None
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def linked(text, folder):
    """The files of the tree that a page in `folder` links."""
    for target in LINK.findall(CODE.sub("", text)):
        if not re.match(r"[a-z]+:|#", target):
            yield posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))


def page_of(path):
    text = read(path)
    return text if path.endswith(".md") else f"# {path}\n\n```{LANGUAGES.get(os.path.splitext(path)[1], 'text')}\n{text}```\n"


def relink(text, path):
    """Links of the page for `path`, from where the page stands in the site."""
    here = posixpath.dirname(name_of(path))

    def replace(match):
        target, _, anchor = match[1].partition("#")
        if re.match(r"[a-z]+:", match[1]) or not target:
            return match[1]
        to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        page = name_of(to)
        return posixpath.relpath(page, here or ".") + ("#" + anchor if anchor else "") if page else match[1]

    return "".join(part if i % 2 else LINK.sub(replace, part) for i, part in enumerate(CODE.split(text)))


def on_files(files, config):
    todo, pages = ["README.md"] + [f"docs/{f.src_uri}" for f in files.documentation_pages()], {}
    while todo:
        path = todo.pop()
        if path not in pages and name_of(path):
            pages[path] = page_of(path)
            if path.endswith(".md"):
                todo += linked(pages[path], posixpath.dirname(path))
    for path, text in pages.items():
        if not path.startswith("docs/"):
            made = File.generated(config, name_of(path), content=relink(text, path) if path.endswith(".md") else text)
            made.inclusion = made.inclusion.INCLUDED if path == "README.md" else made.inclusion.NOT_IN_NAV
            files.append(made)
    return files


def on_page_markdown(markdown, page, config, files):
    return relink(markdown, f"docs/{page.file.src_uri}") if not page.file.generated_by else markdown
