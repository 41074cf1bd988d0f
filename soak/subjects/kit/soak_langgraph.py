"""langgraph: a graph with messages as its state; a message is what one invocation adds to a thread."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from soak_subject import ChatTurn

ROLES = {"human": "user", "ai": "assistant"}


def _listen(_state: MessagesState) -> dict[str, Any]:
    return {"messages": []}


class _Graph:
    def __init__(self, saver: Any) -> None:
        self.saver = saver
        graph = StateGraph(MessagesState)
        graph.add_node("listen", _listen)
        graph.add_edge(START, "listen")
        graph.add_edge("listen", END)
        self.graph = graph.compile(checkpointer=saver)


class Threads(_Graph):
    """A thread for each session, on a checkpointer that is called in threads. The id is the message's own."""

    def append(self, session: str, message: ChatTurn) -> None:
        self.graph.invoke(_said(message), _config(session))

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        return _turns(self.graph.get_state(_config(session)), last)

    def forget(self, session: str) -> None:
        self.saver.delete_thread(session)


class AsyncThreads(_Graph):
    """The same on a checkpointer that is awaited."""

    async def append(self, session: str, message: ChatTurn) -> None:
        await self.graph.ainvoke(_said(message), _config(session))

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        return _turns(await self.graph.aget_state(_config(session)), last)

    async def forget(self, session: str) -> None:
        await self.saver.adelete_thread(session)


def _said(message: ChatTurn) -> Any:
    kind = HumanMessage if message.role == "user" else AIMessage
    return {"messages": [kind(content=message.content, id=message.id)]}


def _turns(state: Any, last: int | None) -> list[ChatTurn]:
    said = state.values.get("messages", [])
    return [
        ChatTurn(one.id, ROLES.get(one.type, one.type), one.content) for one in (said if last is None else said[-last:])
    ]


def _config(session: str) -> Any:
    return {"configurable": {"thread_id": session}}
