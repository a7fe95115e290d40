"""What a run tells of each trial: to callbacks, and to the rules that end it."""

from schedlang.tuning.callbacks.callback import Callback, CallbackWarning
from schedlang.tuning.callbacks.watch import GivenCallbacks, GivenRules, Steps, Watch

__all__ = ["Callback", "CallbackWarning", "GivenCallbacks", "GivenRules", "Steps", "Watch"]
