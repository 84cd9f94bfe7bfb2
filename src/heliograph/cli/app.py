"""The command tree, and what a command's end means to the shell."""

import os
import sys
import traceback
from collections import UserDict
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from heliograph import __version__
from heliograph.cli.options import Session, shared_options
from heliograph.errors import ConfigError, HeliographError, Unsafe

DONE = 0
FAILED = 1
WRONG = 2
REFUSED = 3
INTERRUPTED = 130

EXIT_CODES = {
    DONE: "done and healthy",
    FAILED: "failed, or unhealthy",
    WRONG: "the command or the configuration is wrong",
    REFUSED: "refused for safety; everything is as before",
    INTERRUPTED: "interrupted by Ctrl-C; what was under way ended in good order",
}

# What stands after "error:" where the failure is not one of heliograph.errors.
OTHER_CODES = {
    "usage": (WRONG, "The command line is wrong; `--help` after the command shows what it takes."),
    "system": (FAILED, "The operating system refused something, such as reading a file."),
    "internal": (FAILED, "A defect of Heliograph. Please report it with what `-v` shows."),
}


class _Commands(UserDict[str, Any]):
    """Loads a command when it is asked for: to load them all takes longer than many of them do."""

    def __getitem__(self, name: str) -> Any:
        module, attribute = super().__getitem__(name).split(".")
        return getattr(import_module(f"heliograph.cli.{module}"), attribute)


_COMMANDS = _Commands(
    {
        "check": "check.check",
        "clusters": "clusters.clusters",
        "dashboard": "dashboard.dashboard",
        "demo": "demo.demo",
        "drill": "drill.drill",
        "failback": "turn.failback",
        "failover": "recover.failover",
        "groups": "groups.groups",
        "import": "imports.import_files",
        "init": "init.init",
        "limits": "limits.limits",
        "mirror-maker": "mirror_maker.mirror_maker",
        "pause": "steer.pause",
        "plan": "plan.plan",
        "promote": "recover.promote",
        "resume": "steer.resume",
        "run": "run.run",
        "status": "status.status",
        "stop": "steer.stop",
        "switch": "turn.switch",
        "timeline": "recover.timeline",
        "topics": "topics.topics",
    }
)


@click.group(
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@shared_options
@click.version_option(__version__, prog_name="heliograph")
def app() -> None:
    """Mirror Kafka topics between data centres, exactly once, on Spark.

    \b
    Start here:
      heliograph demo          see it work, on this machine
      heliograph clusters up   two local clusters to try things on

    Every option but --all can also be set in the environment: --dry-run as HELIOGRAPH_DRY_RUN=1.
    """


def main() -> None:
    """Run the command that was typed and leave with its exit status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit status. Errors have been told on stderr."""
    session = Session(words=tuple(arguments))
    try:
        status = app.main(
            list(arguments), prog_name="heliograph", standalone_mode=False, obj=session
        )
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would flush stdout once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except click.exceptions.NoArgsIsHelpError as bare:
        bare.show()
        return WRONG
    except Exception as failure:
        return _tell(failure, session)
    return status if isinstance(status, int) else DONE


def _tell(failure: Exception, session: Session) -> int:
    if session.verbose:
        traceback.print_exception(failure)
    if isinstance(failure, click.ClickException):
        text = f"usage: {failure.format_message()}{_where_to_look(failure)}"
    elif isinstance(failure, HeliographError):
        text = str(failure)
    elif isinstance(failure, OSError):
        text = f"system: {failure}"
    else:
        text = f"internal: {type(failure).__name__}: {failure}. This is a defect of Heliograph; "
        text += "-v shows where."
    click.echo(f"error: {text}", err=True)
    return exit_code(type(failure))


def exit_code(kind: type[Exception]) -> int:
    """Return what a command that ends by an error leaves with."""
    if issubclass(kind, Unsafe):
        return REFUSED
    return WRONG if issubclass(kind, ConfigError | click.ClickException) else FAILED


def _where_to_look(failure: click.ClickException) -> str:
    context = getattr(failure, "ctx", None)
    return f" Try: {context.command_path} --help" if isinstance(context, click.Context) else ""


if __name__ == "__main__":
    main()
