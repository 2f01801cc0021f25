"""Signatures whose bytes are known: those of Kubernetes' own tests (G), and others computed apart."""

from __future__ import annotations

SONG = "Hello from the other side. I must have called a thousand times."
KUBECONFIG = """\
apiVersion: v1
clusters:
- cluster:
    server: https://192.0.2.10:6443
  name: ""
kind: Config
"""
JOSHUA = "joshua.my voice is my passcode"
SEED = "ae23dc.faddc87f5a5ab458"
ABC = "abcdef.0123456789abcdef"

# Token, content, signature.
SIGNED: dict[str, tuple[str, str, str]] = {
    "G1": (JOSHUA, SONG, "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"),
    "G2": (JOSHUA, "", "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk"),
    "G3": ("joshua.", SONG, "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..UfkqvDGiIFxrMnFseDj9LYJOLNrvjW8aHhF71mvvAs8"),
    "G4": ("abc123.tokenSecret", "payload", "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"),
    "1": (SEED, "payload", "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFlMjNkYyJ9..gRI0Qe9p03WGBsM2nZIAJXPSu2GiAMrgn-JQFM4wv-w"),
    "2": ("abcdef.abcdef0123456789", "", "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..aNzSf7NPZX3V0vS5E2fyWXN8POukbJl49EEU9sdI1_M"),
    "3": (ABC, KUBECONFIG, "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..knjnS7j8A-PaXas_Hy_7sgBo_UyTvKj_gE4wdkZTlMs"),
    "4": (ABC, KUBECONFIG.replace("\n", "\r\n"), "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..kQ7x5Frq4xvyMRmS_IkeW_Zh8326cE-9f3EUdgLYSwE"),
    "5": (ABC, KUBECONFIG[:-1], "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..88pJ7QfRiltCnqgjom4RiKOxpjsmo0vOMgaH2-quV70"),
    "6": ("000000.zzzzzzzzzzzzzzzz", "h\u00e9llo \u4e16\u754c \U0001f512\n", "eyJhbGciOiJIUzI1NiIsImtpZCI6IjAwMDAwMCJ9..l1-yJXdl7r1r7KaqVeKUenoevQnt99yl1vo5Hf19UVs"),
    "7": ("abcdef.1123456789abcdef", KUBECONFIG, "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..dAJgICTrfortyuhIAX__OzAIMgNSfMsPUimeEarYli8"),
    "9": ("123456.abcdef1234567890", '{"a":1}', "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEyMzQ1NiJ9..v77k53ewFLo7znVRxk3sNvQJ21F0uV0VEFcLEh5phNA"),
}  # fmt: skip

# Not to be accepted for the token SEED and the content "payload".
_FIRST = SIGNED["1"][2]
FORGED = {
    "N1": "eyJhbGciOiJub25lIiwia2lkIjoiYWUyM2RjIn0..",
    "N2": "eyJraWQiOiJhZTIzZGMiLCJhbGciOiJIUzI1NiJ9..ZguJI16JjItIwePvg9sWRgtscdKRJ7wRz0rw6ccYoWg",
    "N3": "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFlMjNkYyJ9..nBRaXOz6Gli86NnSc7lQdaHjlC1VK_xkTNyGswjJRe0",
    "N4": _FIRST[:-1] + "x",
    "N5": _FIRST + "=",
    "N6": _FIRST.replace("..", ".cGF5bG9hZA."),
}

J1_CLAIMS = '{"exp":1500000120,"iat":1500000000,"sub":"ae23dc"}'
J1 = (
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFlMjNkYyIsInR5cCI6IkpXVCJ9."
    "eyJleHAiOjE1MDAwMDAxMjAsImlhdCI6MTUwMDAwMDAwMCwic3ViIjoiYWUyM2RjIn0."
    "qlgSvdyNEvphVAmPFbo0qeyBDWJL9OeuwENk6VVrilg"
)
J2 = (
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiIsInR5cCI6IkpXVCJ9."
    "eyJhdWQiOiJjbHVzdGVyLTEiLCJleHAiOjE1MDAwMDAwNjAsInN1YiI6ImFiY2RlZiJ9."
    "D4anmjZPtLc8wfzUNGs7-BuIoSJmxI8JyEWPfSGG4xM"
)

S2_BODY = (
    b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cluster-info","namespace":"kube-public"},'
    b'"data":{"kubeconfig":"payload"}}'
)
S1_BODY = S2_BODY + b"\n"
S1 = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFlMjNkYyJ9..pFDMsIxjwcLEeazywqk976aCcSLQKt_WcRL2yoZHPEM"
S2 = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFlMjNkYyJ9..Z8EbhuWJLc7yr0KVb7umd_WEJ7G6jzmZ2lXtyG_xfXc"

# What a server that knows nothing can send back: the client's own JWT, taken for the signature of its claims.
R1 = "..".join(J1.split(".")[::2])
