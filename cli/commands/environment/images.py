"""List, build or load the container images of the Pods and node agents."""

from __future__ import annotations

import click

from cnibench.cli.output.printing import json_option, print_json, print_table


@click.group("images")
def command() -> None:
    """List, build or load the container images of the Pods and node agents.

    A cluster without access to a registry needs them. Both images are built from Debian packages
    with podman or docker. /usr/share/cnibench/sbom.spdx.json in each lists these packages.
    """


@command.command("list")
@click.option(
    "--registry", metavar="HOST/PATH", default="", help="Registry to pull the images from."
)
@json_option
def list_(registry: str, as_json: bool) -> None:
    """List the images and whether the local container engine has them."""
    from cnibench.clusters.kubernetes import images
    from cnibench.errors import MissingError

    try:
        engine = images.engine()
        here = {kind: engine.has(images.name(kind, registry)) for kind in images.KINDS}
        program = engine.program
    except MissingError as error:
        here, program = dict.fromkeys(images.KINDS, False), f"no engine: {error.message}"
    rows = [(kind, images.reference(kind, registry), here[kind]) for kind in images.KINDS]
    if as_json:
        print_json(
            {
                "schema": 1,
                "engine": program,
                "images": [
                    {"kind": kind, "name": name, "here": there} for kind, name, there in rows
                ],
            }
        )
        return
    print_table(
        ("image", "name", f"in {program}"),
        [(kind, name, "yes" if there else "no") for kind, name, there in rows],
    )


@command.command("build")
@click.option(
    "--registry", metavar="HOST/PATH", default="", help="Tag the images for this registry."
)
@click.option(
    "--push",
    is_flag=True,
    help="Push the images to the registry. Runs of this user then pull them by digest.",
)
@click.option(
    "--base",
    metavar="IMAGE",
    default="",
    help="Build on another Debian than docker.io/library/debian:trixie-slim of 2026-09-18.",
)
@click.option(
    "--snapshot",
    metavar="TIME",
    help="Install the packages that Debian had at that time (20260918T000000Z, from"
    " snapshot.debian.org); '' uses the package sources of the base. Default: the time of the"
    " base; '' with --base.",
)
@click.option(
    "--platform",
    metavar="OS/ARCH,...",
    default="",
    help="Build for these platforms (linux/amd64,linux/arm64; several with podman only). Default:"
    " this machine's.",
)
@click.option("--force", is_flag=True, help="Build even if the images exist.")
@click.option("--no-cache", is_flag=True, help="--force, and use no layers of earlier builds.")
def build(
    registry: str,
    push: bool,
    base: str,
    snapshot: str | None,
    platform: str,
    force: bool,
    no_cache: bool,
) -> None:
    """Build both images with podman or docker.

    podman builds the same bytes from the same base and packages each time.
    """
    from cnibench.clusters.kubernetes import images
    from cnibench.errors import UsageError

    if push and not registry:
        raise UsageError("--push needs to know where to", "--registry HOST/PATH")
    recipe = images.Recipe.of(base, snapshot, platform, no_cache)
    engine = images.engine()
    for kind in images.KINDS:
        name = images.name(kind, registry)
        if force or no_cache or not engine.has(name):
            click.echo(f"building {name} with {engine.program}", err=True)
            engine.build(kind, name, recipe)
        if push:
            images.record(name, engine.push(name))
        click.echo(images.reference(kind, registry))


@command.command("load")
@click.option(
    "--name", metavar="CLUSTER", help="A kind cluster; the images are loaded into all its nodes."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write an archive, to be imported on each node with 'ctr -n k8s.io images import'.",
)
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
def load(name: str | None, out: str | None, images: tuple[str, ...]) -> None:
    """Load the images into a kind cluster, or write them to an archive.

    IMAGE names further images of the local container engine.
    """
    from pathlib import Path

    from cnibench.clusters.kubernetes import images as ours
    from cnibench.errors import UsageError
    from cnibench.system import process as programs

    if not name and not out:
        raise UsageError("no destination was given", "give --name CLUSTER or --out FILE")
    engine = ours.engine()
    wanted = [*ours.need(engine), *images]
    if out:
        engine.save(wanted, Path(out))
    if name:
        programs.run(
            ["kind", "load", "image-archive", str(ours.archive(engine, wanted)), "--name", name],
            timeout=300,
        )
    for image in wanted:
        click.echo(image)
