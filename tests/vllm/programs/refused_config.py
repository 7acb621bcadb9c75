"""A configuration that the platform refuses while vLLM resolves it."""

from engine import make_config
from vllm.platforms import current_platform


def refuse(platform, vllm_config):
    raise RuntimeError("no such platform")


type(current_platform).check_and_update_config = refuse
make_config()
