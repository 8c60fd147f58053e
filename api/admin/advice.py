"""What errors of jobs mean, and what an operator does about them."""

from __future__ import annotations

ADVICE = {
    "adapter_unusable": (
        "A LoRA adapter's file is damaged, or made for another model. Put the right file in its place; a "
        "retry meets the same one."
    ),
    "bad_output": (
        "The model gave no usable picture. If a retry does too, look at its precision and its files, with "
        "safelight doctor."
    ),
    "canceled": "The provider of the model gave the render up. Retry it if it is still wanted.",
    "content_filtered": (
        "The model's own safety checker, or its provider, flagged it. A retry of the same prompt and seed "
        "ends the same way."
    ),
    "deadline_exceeded": (
        "It came too late for who asked. A retry has no deadline any more; add workers to the lane if it happens often."
    ),
    "invalid_request": "The pipeline refused the parameters. Submit it anew with others; a retry is refused too.",
    "model_unavailable": "The worker can't load the model. See its log and the model's path, then redrive.",
    "out_of_memory": "The device has too little memory for it. Use a larger one, or submit it smaller.",
    "outputs_unavailable": "The pictures could not be stored. See that they can be written to, then redrive.",
    "provider_busy": (
        "The provider of the model takes no more at the moment. Redrive when it does, or give the model fallbacks."
    ),
    "provider_refused": (
        "The provider refused it: see the message. A wrong key or model name is mended in the settings, and "
        "then redriven."
    ),
    "provider_unreachable": (
        "The provider can't be reached from the worker. See the network and the provider's status, then redrive."
    ),
    "render_failed": (
        "The render broke in a way that has no name. The message and the worker's log tell more; retry it once."
    ),
    "worker_lost": (
        "Its workers died or fell silent while they had it. See their logs (memory, driver), before it takes "
        "the next one down."
    ),
}
"""By the error's code."""

OTHER = "Safelight has no advice for this code. The message, and the worker's log, tell more."


def advice_for(code: str) -> str:
    """What to do about an error of a job."""
    return ADVICE.get(code, OTHER)
