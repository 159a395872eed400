"""The tags of a page, and that they match."""

from html.parser import HTMLParser

VOID = {"input", "link", "meta"}


class Tags(HTMLParser):
    """Holds every tag and attribute; fails where tags do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags_of(text):
    parser = Tags()
    parser.feed(text)
    assert parser.open == []
    return parser


def assert_loads_nothing(text):
    """A page needs no network, and runs no script."""
    tags = tags_of(text)
    assert "script" not in tags.tags
    assert not {name for name, _ in tags.attributes} & {"src", "href", "srcset", "action"}
    assert "url(" not in text
    assert "default-src 'none'" in text
