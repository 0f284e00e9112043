"""Print the roles that cnibench needs on an existing cluster."""

from __future__ import annotations

import click

from cnibench.clusters.kubernetes.rights.table import LEVELS, Level


@click.command(
    "rbac",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench rbac --user jane | kubectl apply -f -\n"
        "  cnibench rbac --level namespace -n bench --service-account bench/cnibench\n"
    ),
)
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="measure",
    show_default=True,
    metavar="LEVEL",
    help=(
        "What the user may do: measure with Pods in one namespace (namespace), measure the cluster"
        " as it is (measure), or also install and remove CNIs (install)."
    ),
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default="",
    help="With --level namespace: the namespace, which must exist.",
)
@click.option("--user", "users", multiple=True, metavar="NAME", help="Bind the role to this user.")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Bind the role to this group."
)
@click.option(
    "--service-account",
    "accounts",
    multiple=True,
    metavar="NS/NAME",
    help="Bind the role to this ServiceAccount of that namespace.",
)
@click.option(
    "--pull-secret",
    metavar="NAME",
    default="",
    help="Allow copying this image pull secret ([NAMESPACE/]NAME).",
)
def command(
    level: Level,
    namespace: str,
    users: tuple[str, ...],
    groups: tuple[str, ...],
    accounts: tuple[str, ...],
    pull_secret: str,
) -> None:
    """Print the roles that cnibench needs on an existing cluster.

    The output is YAML for 'kubectl apply -f -', with the reason for each rule: a ClusterRole (a
    Role with --level namespace), and its binding if a user, group or ServiceAccount is given. No
    cluster is contacted. --level namespace is for --cluster namespace, the others are for
    --cluster existing.
    """
    from cnibench.clusters.kubernetes.rights import roles

    subjects = [
        *(roles.Subject("User", name) for name in users),
        *(roles.Subject("Group", name) for name in groups),
        *(roles.service_account(text) for text in accounts),
    ]
    click.echo(roles.document(level, subjects, pull_secret, namespace), nl=False)
