"""The code of the demo's repository, and the defects that its pull request brings in."""

from __future__ import annotations

from typing import Final

from coven.sandbox.client import Files

FILES: Final[Files] = {
    "README.md": "# Billing\n\nInvoices for small shops.\n",
    "billing/__init__.py": '"""Invoices."""\n',
    "billing/money.py": '''"""Sums of money in cents."""


def total(amounts):
    """The sum of all amounts."""
    return sum(amounts)


def average(amounts):
    """The mean amount in cents."""
    return total(amounts) / len(amounts)
''',
}

CHANGES: Final[Files] = {
    "billing/invoices.py": '''"""Monthly invoices."""

import sqlite3
import subprocess

from billing.money import total

API_PASSWORD = "hunter2-production"


def find(database, customer):
    """All invoices of a customer."""
    query = f"SELECT id, cents FROM invoices WHERE customer = '{customer}'"
    return sqlite3.connect(database).execute(query).fetchall()


def export(name, rows=[]):
    """Write rows to a file and pack it."""
    try:
        with open(name, "w") as out:
            out.writelines(rows)
    except:
        pass
    subprocess.run(f"gzip {name}", shell=True)
    return rows


def monthly(amounts):
    """The month's total."""
    if amounts == None:
        return 0
    return total(amounts)
''',
}

DEFECTS: Final = (
    ("billing/invoices.py", 8),
    ("billing/invoices.py", 13),
    ("billing/invoices.py", 17),
    ("billing/invoices.py", 22),
    ("billing/invoices.py", 24),
    ("billing/invoices.py", 30),
)
"""Path and line of each defect that the review must name."""

ISSUE_TITLE: Final = "average() fails for an empty list"
ISSUE_BODY: Final = (
    "`average` in `billing/money.py` divides by the length of the list. For an empty list it "
    "raises ZeroDivisionError; it should return 0."
)
FIXED_FILE: Final = "billing/money.py"
