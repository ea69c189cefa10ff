"""`python tools/kernel_report`: see cli.py."""
import sys
from pathlib import Path

if not __package__:   # run as a folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernel_report.cli import main

main()
