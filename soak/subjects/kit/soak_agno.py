"""agno: an `Agent` whose memory is looked at, with a model that answers at once, and always the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from soak_subject import ChatTurn, with_id, without_id


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


class Runs:
    """A run for each message. Its answer is not part of the conversation that is looked at."""

    def __init__(self, db: Any) -> None:
        self.agent = Agent(model=AtOnce(id="at-once"), db=db, telemetry=False)

    def append(self, session: str, message: ChatTurn) -> None:
        answer = self.agent.run(with_id(message), session_id=session)
        if str(getattr(answer.status, "value", answer.status)).lower() == "error":
            raise RuntimeError(f"the run ended with an error: {answer.content}")

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        known = self.agent.get_session(session_id=session)
        if known is None:
            return []  # so the library says that it knows of no such session
        said = [one for one in known.get_chat_history() if one.role == "user"]
        return [without_id(one.content) for one in (said if last is None else said[-last:])]

    def forget(self, session: str) -> None:
        self.agent.delete_session(session)
