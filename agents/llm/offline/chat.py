"""The author behind LangChain's chat-model interface."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from cuda_harness.agents.llm.offline.author import answer


class OfflineChatModel(BaseChatModel):
    """`--model offline`: the built-in templates. It counts no tokens, since it reads and writes none."""

    model_name: str = "offline"

    @property
    def _llm_type(self) -> str:
        return "cuda-harness-offline"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ANN401 - LangChain's own signature
    ) -> ChatResult:
        """Return the reply to a conversation: the first system and human message, and what was said of the last reply."""
        del stop, run_manager, kwargs
        system = "\n".join(str(m.content) for m in messages if isinstance(m, SystemMessage))
        human = "\n\n".join(str(m.content) for m in messages if m.type == "human")
        reply = AIMessage(
            content=answer(system, human),
            response_metadata={"finish_reason": "stop", "model_name": self.model_name},
        )
        return ChatResult(generations=[ChatGeneration(message=reply)])
