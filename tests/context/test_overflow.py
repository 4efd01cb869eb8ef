"""Real wordings of real providers, and what resembles them but is something else."""

import pytest

from memory_core.context.overflow import WORDINGS, is_overflow

OVERFLOWS = [
    ("OpenAI", "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. Please reduce the length of the messages."),
    ("OpenAI", "This model's maximum context length is 4097 tokens, however you requested 4113 tokens (1613 in your prompt; 2500 for the completion). Please reduce your prompt; or completion length."),
    ("OpenAI", "Your input exceeds the context window of this model. Please adjust your input and try again."),
    ("OpenAI", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 290077 tokens. Please reduce the length of the messages."),
    ("OpenAI", "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string with length 2134567 instead."),
    ("Azure", "Error code: 400 - {'error': {'message': \"This model's maximum context length is 128000 tokens. However, your messages resulted in 249114 tokens.\", 'type': 'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}"),
    ("Anthropic", "prompt is too long: 213462 tokens > 200000 maximum"),
    ("Anthropic", "input length and `max_tokens` exceed context limit: 198157 + 21333 > 200000, decrease input length or `max_tokens` and try again"),
    ("Anthropic", '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}'),
    ("Bedrock", "An error occurred (ValidationException) when calling the Converse operation: Input is too long for requested model."),
    ("Bedrock", "Malformed input request: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."),
    ("Bedrock", "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9711"),
    ("Bedrock", "This model's maximum context length is 8192 tokens. Please reduce the length of the prompt"),
    ("Google", "400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).', 'status': 'INVALID_ARGUMENT'}}"),
    ("Google", "The input token count exceeds the maximum number of tokens allowed (1048576)."),
    ("Vertex", "Unable to submit request because the input token count is 1251952 but model only supports up to 1048576. Reduce the input token count and try again."),
    ("Mistral", "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    ("Mistral", "The number of tokens in the prompt exceeds the model's maximum context length of 32768. Use a shorter prompt."),
    ("DeepSeek", "This model's maximum context length is 65536 tokens. However, you requested 73149 tokens (65149 in the messages, 8000 in the completion). Please reduce the length of the messages or completion."),
    ("Qwen", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 202745]"),
    ("Qwen", "Range of input length should be [1, 98304]"),
    ("Zhipu", '{"error":{"code":"1261","message":"Prompt 超长"}}'),
    ("Zhipu", "输入内容超过模型最大长度限制"),
    ("Moonshot", "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
    ("Moonshot", "Input token length too long"),
    ("MiniMax", "invalid params, context window exceeds limit (2013)"),
    ("Cohere", "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs, or setting prompt_truncation='AUTO'."),
    ("Cohere", "too many tokens: size limit exceeded by 168512 tokens. Try using shorter or fewer inputs. The limit for this model is 132000 tokens."),
    ("Cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt."),
    ("Groq", "Please reduce the length of the messages or completion."),
    ("Cerebras", "Please reduce the length of the messages or completion. Current length is 9011 while limit is 8192"),
    ("xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    ("Together", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and 1024 `max_new_tokens`"),
    ("Together", "The input (516368 tokens) is longer than the model's context length (262144 tokens)."),
    ("Fireworks", "The prompt is too long: 221782, model maximum context length: 202752"),
    ("OpenRouter", 'This endpoint\'s maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.'),
    ("OpenRouter", "Input length 280345 exceeds the maximum allowed input length of 262144 tokens"),
    ("SiliconFlow", '{"code":20015,"message":"length of prompt_tokens (68957) must be less than max_seq_len (65536).","data":null}'),
    ("SiliconFlow", "max_total_tokens (33802) must be less than or equal to max_seq_len (32768)"),
    ("vLLM", "Error code: 400 - {'object': 'error', 'message': \"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.\", 'type': 'BadRequestError', 'param': None, 'code': 400}"),
    ("vLLM", "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104)."),
    ("vLLM", "The decoder prompt (length 21535) is longer than the maximum model length of 16384"),
    ("SGLang", "The input (61709 tokens) is longer than the model's context length (40960 tokens)."),
    ("SGLang", "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 70000 tokens: 6000 tokens from the input messages and 64000 tokens for the completion."),
    ("SGLang", "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate."),
    ("llama.cpp", '{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}'),
    ("llama.cpp", "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it"),
    ("llama.cpp", "Context size has been exceeded."),
    ("llama-cpp-python", "Requested tokens (2285) exceed context window of 2048"),
    ("Ollama", "prompt too long; exceeded max context length by 42 tokens"),
    ("Ollama", "the input length exceeds the context length"),
    ("LM Studio", "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"),
    ("LM Studio", "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."),
    ("TGI", "Input validation error: `inputs` must have less than 1024 tokens. Given: 1168"),
    ("TGI", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1244 `inputs` tokens and 1000 `max_new_tokens`"),
    ("GitHub Copilot", "prompt token count of 51808 exceeds the limit of 12288"),
    ("litellm", "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: context window exceeded"),
]  # fmt: skip

OTHERS = [
    ("OpenAI", "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Used 8554, Requested 3082. Please try again in 9.816s."),
    ("OpenAI", "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 31538. The input or output tokens must be reduced in order to run successfully."),
    ("OpenAI", "You exceeded your current quota, please check your plan and billing details."),
    ("OpenAI", "max_tokens is too large: 5000. This model supports at most 4096 completion tokens, whereas you provided 5000."),
    ("OpenAI", "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got a string with length 2412 instead."),
    ("OpenAI", "Invalid 'user': string too long. Expected a string with maximum length 64"),
    ("OpenAI", "The server had an error while processing your request."),
    ("Anthropic", "This request would exceed your organization's rate limit of 30,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later."),
    ("Anthropic", "Number of request tokens has exceeded your per-minute rate limit"),
    ("Anthropic", "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude"),
    ("Anthropic", "Your credit balance is too low to access the Anthropic API."),
    ("Anthropic", "Extra usage is required for long context requests."),
    ("Anthropic", "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks"),
    ("Bedrock", "ThrottlingException: Too many tokens, please wait before trying again."),
    ("Bedrock", "Too many tokens per minute"),
    ("Bedrock", "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."),
    ("Google", "429 RESOURCE_EXHAUSTED. Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000"),
    ("Google", "The model is overloaded. Please try again later."),
    ("Qwen", "Range of max_tokens should be [1, 8192]"),
    ("Qwen", "Requests rate limit exceeded, please try again later."),
    ("Zhipu", "您当前使用该API的并发数过高，请降低并发，或联系客服增加限额。"),
    ("Zhipu", "账户余额不足"),
    ("Moonshot", "Your account request reached max organization TPM: 32000"),
    ("Cohere", "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 8192."),
    ("Cohere", "You are using a Trial key, which is limited to 40 API calls / minute"),
    ("Groq", "Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 7044, please reduce your message size and try again."),
    ("TGI", "Input validation error: `max_new_tokens` must be <= 192"),
    ("Together", "Too many requests"),
    ("any", "Connection reset by peer"),
    ("any", "the file is too long"),
    ("any", ""),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "text"), OVERFLOWS)
def test_an_overflow_is_recognised_as_its_provider_words_it(provider: str, text: str) -> None:
    assert is_overflow(text), provider
    assert is_overflow(RuntimeError(text))
    assert is_overflow(text.upper()), "case does not matter"


@pytest.mark.parametrize(("provider", "text"), OTHERS)
def test_what_compaction_cannot_help_is_no_overflow(provider: str, text: str) -> None:
    assert not is_overflow(text), provider
    assert not is_overflow(RuntimeError(text))


def test_every_row_of_the_table_is_needed_and_tested() -> None:
    for wording in WORDINGS:
        assert any(wording.pattern.search(text.lower()) for _, text in OVERFLOWS), wording.providers


class ModelRequestRejectedError(Exception):
    """As pydantic-ai has it."""


class ModelContextWindowExceededError(ModelRequestRejectedError):
    """As pydantic-ai has it: known by its name, also in subclasses, without importing pydantic-ai."""


class HTTPError(Exception):
    def __init__(self, body: object = None, **attributes: object) -> None:
        super().__init__("status_code: 400")
        self.body = body
        for name, value in attributes.items():
            setattr(self, name, value)


def test_types_are_known_by_name() -> None:
    class _HTTPVariant(ModelContextWindowExceededError):
        pass

    assert is_overflow(ModelContextWindowExceededError("400"))
    assert is_overflow(_HTTPVariant("400"))
    assert not is_overflow(ModelRequestRejectedError("400"))


def test_pydantic_ais_own_error_is_known() -> None:
    exceptions = pytest.importorskip("pydantic_ai.exceptions", reason="pydantic-ai is not installed")
    assert is_overflow(exceptions.ModelContextWindowExceededError("some-model", "too long"))
    assert is_overflow(
        exceptions.ModelHTTPError(400, "m", {"error": {"message": "prompt is too long: 2 tokens > 1 maximum"}})
    )
    assert not is_overflow(
        exceptions.ModelHTTPError(429, "m", {"error": {"message": "Rate limit: too many tokens per minute"}})
    )


@pytest.mark.parametrize(
    "error",
    [
        HTTPError({"error": {"code": "context_length_exceeded"}}),
        HTTPError({"object": "error", "code": "3051"}),
        HTTPError({"error": {"code": 1261}}),
        HTTPError(code="context_length_exceeded"),
        HTTPError(provider_error_type="exceed_context_size_error"),
        HTTPError("prompt is too long: 5 tokens > 4 maximum"),
        {"choices": [], "error": {"type": "request_too_large"}},
        {"stop_reason": "model_context_window_exceeded"},
    ],
)
def test_codes_count_wherever_they_stand(error: object) -> None:
    assert is_overflow(error)


def test_causes_and_groups_are_looked_at() -> None:
    try:
        try:
            raise ValueError("prompt is too long: 5 tokens > 4 maximum")
        except ValueError as error:
            raise RuntimeError("the agent failed") from error
    except RuntimeError as wrapped:
        assert is_overflow(wrapped)
        assert is_overflow(ExceptionGroup("several", [KeyError("x"), wrapped]))
    loop = RuntimeError("round and round")
    loop.__cause__ = loop
    assert not is_overflow(loop)
    assert not is_overflow(None)
    assert not is_overflow(HTTPError(code=True))
