"""A model for agno that answers at once, and always the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.models.base import Model
from agno.models.response import ModelResponse


class AtOnce(Model):
    """Asks nobody: what is looked at is the memory."""

    def invoke(self, *_args: Any, **_kwargs: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content="ok")

    async def ainvoke(self, *_args: Any, **_kwargs: Any) -> ModelResponse:
        return self.invoke()

    def invoke_stream(self, *_args: Any, **_kwargs: Any) -> Iterator[ModelResponse]:
        yield self.invoke()

    async def ainvoke_stream(self, *_args: Any, **_kwargs: Any) -> AsyncIterator[ModelResponse]:
        yield self.invoke()

    def _parse_provider_response(self, response: Any, **_kwargs: Any) -> ModelResponse:
        return response if isinstance(response, ModelResponse) else self.invoke()

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response if isinstance(response, ModelResponse) else self.invoke()
