"""What keeps a program to this machine, whatever it would like to tell, to whomever."""

from __future__ import annotations

_NOBODY = "http://127.0.0.1:9"
"""The discard port, where nobody listens."""

QUIET = {
    "HTTP_PROXY": _NOBODY,
    "HTTPS_PROXY": _NOBODY,
    "http_proxy": _NOBODY,
    "https_proxy": _NOBODY,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
    "DO_NOT_TRACK": "1",
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "MEM0_TELEMETRY": "False",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
