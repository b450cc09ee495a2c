"""`sandlot env`: environments as packages."""

from __future__ import annotations

from sandlot.cli.lazy import Entry, LazyGroup

env_command = LazyGroup(
    "env",
    entries={
        "init": Entry("sandlot.cli.env_init", "Write a new environment package that runs at once."),
        "validate": Entry("sandlot.cli.env_validate", "Play it by an oracle and do-nothing agents, without a model."),
        "push": Entry("sandlot.cli.env_push", "Build an environment and publish it to the hub."),
        "install": Entry("sandlot.cli.env_install", "Install environments from the hub."),
        "uninstall": Entry("sandlot.cli.env_install", "Remove an installed environment."),
        "pull": Entry("sandlot.cli.env_pull", "Fetch the source of an environment into a folder."),
        "list": Entry("sandlot.cli.env_list", "List the hub's environments, or the installed ones."),
        "info": Entry("sandlot.cli.env_info", "Show an environment's releases and what it is."),
        "inspect": Entry("sandlot.cli.env_info", "List or print the files inside a release."),
        "yank": Entry("sandlot.cli.env_yank", "Take a release out of what is chosen by default."),
    },
    help="Make, publish, find and install environments.",
)
