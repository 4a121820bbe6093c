"""Show the installed libraries and data, problems, and the commands that fix them."""
from argparse import Namespace

from mmflatten import doctor
from mmflatten.cli.common import command


@command('doctor', __doc__)
def main(args: Namespace) -> int:
    return doctor.main()
