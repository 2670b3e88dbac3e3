"""Rate limits of providers: one hold for all workers of a provider in this process, whatever their job."""


class ProviderHolds:
    """Until when (monotonic seconds) nothing new is asked of a provider."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def hold(self, provider: str, until: float) -> None:
        """A later hold wins over an earlier one."""
        self._until[provider] = max(until, self._until.get(provider, 0.0))

    def until(self, provider: str | None) -> float:
        """0 where there is no hold."""
        return 0.0 if provider is None else self._until.get(provider, 0.0)
