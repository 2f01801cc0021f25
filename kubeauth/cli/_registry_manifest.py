"""`kubeauth registry manifest`: the manifest of an image, fetched with what the providers give."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import add_output
from kubeauth.cli._output import as_json, pass_on, read_json, write, write_text
from kubeauth.cli._registry_flags import ProviderFlags, add_image, add_provider_flags
from kubeauth.cli._tables import Columns, cell

if TYPE_CHECKING:
    from kubeauth._parsing import Json
    from kubeauth.cli._registry_asking import Manifest
    from kubeauth.registry._reference import ImageReference


class Output(StrEnum):
    table = "table"
    json = "json"
    raw = "raw"


class Options(ProviderFlags):
    image: ImageReference
    output: Output = Output.table
    plain_http: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image(parser)
    add_provider_flags(parser)
    parser.add_argument(
        "--plain-http", action="store_true", help="without TLS, for a registry on this machine"
    )
    add_output(parser, Output, "table (default), json, or raw: the bytes as they came")


def run(options: Options) -> int:
    """Fetch the manifest of an image with the credentials that the providers give, and show what is in it.

    Whether a pull would be let in, without pulling. Without --config the registry is asked as nobody. What
    comes must have the digest that it was asked for by, or that the registry names.

    --certificate-authority, --insecure-skip-tls-verify and --request-timeout are about the registry and its
    token endpoint here.
    """
    from kubeauth.cli._registry_asking import fetch

    manifest = fetch(options, options.image, plain_http=options.plain_http)
    if options.output is Output.raw:
        pass_on([manifest.body], untouched=True)
        return Status.OK
    document = read_json(manifest.body)
    if options.output is Output.json:
        write(as_json(document))
    elif isinstance(document, dict):
        write_text("\n".join(_tables(options.image, manifest, document)))
    else:
        raise Failed("error: the registry's answer is no manifest. -o raw shows it.")
    return Status.OK


def _tables(image: ImageReference, manifest: Manifest, document: dict[str, Json]) -> Iterator[str]:
    facts = [
        ("Image", cell(str(image))),
        ("Digest", manifest.digest),
        ("Media type", cell(manifest.media_type)),
        ("Size", f"{len(manifest.body):,} bytes"),
    ]
    if isinstance(annotations := document.get("annotations"), dict):
        facts += [(f"Annotation {cell(key)}", cell(value)) for key, value in annotations.items()]
    yield Columns().text(facts)
    if several := _objects(document.get("manifests")):
        rows = [(_platform(each), *_described(each)) for each in several]
        yield Columns().text([("PLATFORM", "DIGEST", "BYTES", "MEDIA TYPE"), *rows])
    if config := _objects([document.get("config")]):
        rows = [("config", *_described(each)) for each in config]
        rows += [("layer", *_described(each)) for each in _objects(document.get("layers"))]
        yield Columns().text([("PART", "DIGEST", "BYTES", "MEDIA TYPE"), *rows])


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _described(descriptor: dict[str, Any]) -> tuple[str, str, str]:
    size = descriptor.get("size")
    written = f"{size:,}" if isinstance(size, int) else cell(size)
    return cell(descriptor.get("digest")), written, cell(descriptor.get("mediaType"))


def _platform(descriptor: dict[str, Any]) -> str:
    """As docker writes it: linux/arm/v7."""
    platform = descriptor.get("platform")
    if not isinstance(platform, dict):
        return "<none>"
    parts = (cell(platform.get(name)) for name in ("os", "architecture", "variant"))
    return "/".join(filter(None, parts))
