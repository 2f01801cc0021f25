"""URL, environment, and the proxy that Go chooses: for the unit test and for the comparison with Go."""

from __future__ import annotations

P = "http://proxy:3128"


def _no_proxy(entries: str, direct: str, proxied: str = "") -> list[tuple[str, dict[str, str], str | None]]:
    environ = {"HTTPS_PROXY": P, "HTTP_PROXY": P, "NO_PROXY": entries}
    return [
        *[(url, environ, None) for url in direct.split()],
        *[(url, environ, P) for url in proxied.split()],
    ]


TABLE: list[tuple[str, dict[str, str], str | None]] = [
    ("https://h", {}, None),
    ("https://h", {"HTTPS_PROXY": P}, P),
    ("https://h", {"https_proxy": P}, P),
    ("https://h", {"HTTPS_PROXY": P, "https_proxy": "http://lower:1"}, P),
    ("https://h", {"HTTPS_PROXY": "", "https_proxy": P}, P),
    ("https://h", {"HTTP_PROXY": P}, None),
    ("http://h", {"HTTP_PROXY": P}, P),
    ("http://h", {"HTTPS_PROXY": P}, None),
    ("https://h", {"ALL_PROXY": P}, None),
    ("http://h", {"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, None),
    ("https://h", {"HTTPS_PROXY": P, "REQUEST_METHOD": "GET"}, P),
    ("https://h", {"HTTPS_PROXY": "proxy:3128"}, P),
    ("https://h", {"HTTPS_PROXY": "proxy"}, "http://proxy"),
    ("https://h", {"HTTPS_PROXY": "localhost"}, "http://localhost"),
    ("https://h", {"HTTPS_PROXY": "10.0.0.1:8080"}, "http://10.0.0.1:8080"),
    ("https://h", {"HTTPS_PROXY": "https://proxy"}, "https://proxy"),
    ("https://h", {"HTTPS_PROXY": "socks5://proxy:1080"}, "socks5://proxy:1080"),
    ("https://h", {"HTTPS_PROXY": "http://u:p@proxy:1"}, "http://u:p@proxy:1"),
    ("https://h", {"HTTPS_PROXY": "http://proxy:99999"}, "http://proxy:99999"),
    ("https://h", {"HTTPS_PROXY": "[::1"}, None),
    # loopback never
    *_no_proxy("", "https://localhost:6443 https://127.0.0.1 https://127.9.9.9 https://[::1]:6443",
               "https://localhost.example https://[::2]"),
    # everything
    *_no_proxy("*", "https://h https://10.0.0.1"),
    *_no_proxy("a.example, *", "https://h"),
    # addresses and networks
    *_no_proxy("10.0.0.1", "https://10.0.0.1 https://10.0.0.1:6443", "https://10.0.0.2"),
    *_no_proxy("10.0.0.1:6443", "https://10.0.0.1:6443", "https://10.0.0.1"),
    *_no_proxy("10.0.0.0/8", "https://10.1.2.3:6443", "https://11.0.0.1 https://h"),
    *_no_proxy("10.1.2.3/8", "https://10.9.9.9"),
    *_no_proxy("10.1.2.3/255.0.0.0", "", "https://10.9.9.9"),
    *_no_proxy("2001:db8::/32", "https://[2001:db8::1]:6443", "https://[2001:db9::1]"),
    *_no_proxy("2001:db8::1", "https://[2001:db8::1]", "https://[2001:db8::2]"),
    *_no_proxy("[2001:db8::1]:443", "https://[2001:db8::1]", "https://[2001:db8::1]:6443"),
    *_no_proxy("::ffff:10.0.0.1", "https://10.0.0.1"),
    # domains
    *_no_proxy("example.com", "https://example.com https://a.example.com https://EXAMPLE.com",
               "https://notexample.com https://example.com.evil"),
    *_no_proxy(".example.com", "https://a.example.com https://a.b.example.com", "https://example.com"),
    *_no_proxy("*.example.com", "https://a.example.com", "https://example.com"),
    *_no_proxy("Example.COM", "https://a.example.com"),
    *_no_proxy("example.com:443", "https://example.com https://a.example.com", "https://example.com:6443"),
    *_no_proxy("example.com:80", "http://example.com", "https://example.com"),
    *_no_proxy(" a.example , b.example ", "https://a.example https://b.example", "https://c.example"),
    *_no_proxy("ample.com", "", "https://example.com"),
    *_no_proxy("com", "https://example.com"),
    # malformed entries are ignored
    *_no_proxy(",, ,:443,10.0.0.0/99", "", "https://h https://10.0.0.1"),
    *_no_proxy("10.0.0", "", "https://10.0.0.1"),
    # both spellings of an international name are equal
    *_no_proxy("xn--fsq092h.com", "https://www.示例.com"),
    *_no_proxy("示例.com", "https://www.xn--fsq092h.com https://示例.com", "https://例.com"),
    *_no_proxy("示例..com", "", "https://www.示例.com"),
    *_no_proxy(".示例.com", "https://www.示例.com", "https://示例.com"),
]  # fmt: skip
