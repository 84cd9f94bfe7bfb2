"""The command tree, and what a command's end means to the shell."""

import os
import sys
import traceback
from collections.abc import Sequence

import click

from heliograph import __version__
from heliograph.cli.clusters import clusters
from heliograph.cli.demo import demo
from heliograph.cli.options import Session, shared_options
from heliograph.errors import ConfigError, HeliographError

FAILED = 1
WRONG = 2
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@shared_options
@click.version_option(__version__, prog_name="heliograph")
def app() -> None:
    """Mirror Kafka topics between data centres, exactly once, on Spark.

    \b
    Start here:
      heliograph demo          see it work, on this machine
      heliograph clusters up   two local clusters to try things on

    Every option can also be set in the environment: --nodes as HELIOGRAPH_NODES.
    """


app.add_command(clusters)
app.add_command(demo)


def main() -> None:
    """Run the command that was typed and leave with its exit status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit status. Errors have been told on stderr."""
    session = Session()
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
    return status if isinstance(status, int) else 0


def _tell(failure: Exception, session: Session) -> int:
    if session.verbose:
        traceback.print_exception(failure)
    if isinstance(failure, click.ClickException):
        text, status = f"usage: {failure.format_message()}{_where_to_look(failure)}", WRONG
    elif isinstance(failure, HeliographError):
        text, status = str(failure), WRONG if isinstance(failure, ConfigError) else FAILED
    elif isinstance(failure, OSError):
        text, status = f"system: {failure}", FAILED
    else:
        text = f"internal: {type(failure).__name__}: {failure}. This is a defect of Heliograph; "
        text, status = text + "-v shows where.", FAILED
    click.echo(f"error: {text}", err=True)
    return status


def _where_to_look(failure: click.ClickException) -> str:
    context = getattr(failure, "ctx", None)
    return f" Try: {context.command_path} --help" if isinstance(context, click.Context) else ""


if __name__ == "__main__":
    main()
