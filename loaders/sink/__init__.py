"""A stand-in for KairosDB that takes data points and throws them away.

It shows what the *loader* can do, and says nothing about KairosDB: it stores nothing, checks
nothing, and answers at once. It is made to cost little, as it shares the machine with the loader
that is measured against it: bodies are skipped by their length, never joined and never parsed.
Only with `--count` it reads every body, to say exactly how many data points came.

    python -m loaders.sink [--host 127.0.0.1] [--http PORT]… [--telnet PORT]… [--count]

listens on every port given (0: a free one; an option given twice stands for two KairosDB nodes)
and prints one line when it does: {"http": [port, …], "telnet": [port, …]}.

REST: `POST /api/v1/datapoints` (JSON, or gzip with `Content-Type: application/gzip`) is answered by
204, `GET /api/v1/version`, `/api/v1/health/check` and `/api/v1/health/status` as by KairosDB.
Telnet: lines are thrown away; `version` is answered, once everything before it has been read.

And for whoever measures: `GET /stats`, which gives the counters (see `Sink.stats`), and
`POST /stall?seconds=2.5`, which holds back all other answers and reads no telnet for so long from
then on (0 ends it).
"""
