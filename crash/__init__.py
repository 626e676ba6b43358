"""Proof that what threadline acknowledged is kept: processes killed, power cut, disks filled.

`python -m crash` (or `make crash`) runs everything and prints one closing table; `python -m crash
KIND` runs one kind. Every run prints its seed and takes `--seed`.

| kind | what happens |
|---|---|
| `random` | `kill -9` at random moments of a process that does everything at once |
| `steps` | `kill -9` before every single write, sync and file operation of a scenario |
| `power` | every file rebuilt with any subset, torn or not, of what was not synced |
| `full` | the disk is full at every write; a sync fails |
| `postgres` | `kill -9` of the database server under load |

Each ends with the same laws (`laws.py`), judged over the rows of the reopened store. `python -m
crash.day` (or `make day`) is a whole day of writing first, judged by the platforms' own logs.
"""
