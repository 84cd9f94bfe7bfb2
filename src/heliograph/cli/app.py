"""The command tree, and what a command's end means to the shell."""

import os
import sys
import traceback
from collections.abc import Sequence

import click

from heliograph import __version__
from heliograph.cli.check import check
from heliograph.cli.clusters import clusters
from heliograph.cli.dashboard import dashboard
from heliograph.cli.demo import demo
from heliograph.cli.drill import drill
from heliograph.cli.groups import groups
from heliograph.cli.imports import import_files
from heliograph.cli.init import init
from heliograph.cli.limits import limits
from heliograph.cli.mirror_maker import mirror_maker
from heliograph.cli.options import Session, shared_options
from heliograph.cli.plan import plan
from heliograph.cli.recover import failover, promote, timeline
from heliograph.cli.run import run as run_links
from heliograph.cli.status import status as show_status
from heliograph.cli.steer import pause, resume, stop
from heliograph.cli.topics import topics
from heliograph.cli.turn import failback, switch
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


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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


app.add_command(check)
app.add_command(clusters)
app.add_command(dashboard)
app.add_command(demo)
app.add_command(groups)
app.add_command(import_files)
app.add_command(init)
app.add_command(limits)
app.add_command(mirror_maker)
app.add_command(plan)
app.add_command(run_links)
app.add_command(show_status)
app.add_command(pause)
app.add_command(resume)
app.add_command(stop)
app.add_command(topics)
app.add_command(promote)
app.add_command(failover)
app.add_command(switch)
app.add_command(failback)
app.add_command(drill)
app.add_command(timeline)


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
