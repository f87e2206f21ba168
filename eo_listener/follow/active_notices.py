"""What is wrong with a checkpoint now: each trouble is said once while it lasts. Pure."""

from __future__ import annotations

from eo_listener.follow.notices import Notice, NoticeKind
from eo_listener.spark.checkpoint import FileFinding

Notices = tuple[Notice, ...]


class ActiveNotices:
    """The notices of one checkpoint that hold now. As many as there are kinds and bad files."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._notices: dict[NoticeKind, Notice] = {}
        self._findings: set[FileFinding] = set()

    def say(
        self, kind: NoticeKind, what: str, cause: str = "", fix: str = "", *, anew: bool = True
    ) -> Notices:
        """Say something, unless it was said in the same words and still holds.

        Without `anew` other words for the same trouble are not said either.
        """
        notice = self.notice(kind, what, cause, fix)
        standing = self._notices.get(kind)
        if standing is not None and (standing == notice or not anew):
            return ()
        self._notices[kind] = notice
        return (notice,)

    def notice(self, kind: NoticeKind, what: str, cause: str = "", fix: str = "") -> Notice:
        """Build a notice of this checkpoint that does not last."""
        return Notice(checkpoint=self._shown, kind=kind, what=what, cause=cause, fix=fix)

    def over(self, kind: NoticeKind, what: str) -> Notices:
        """Say `what` if such a notice held."""
        if self._notices.pop(kind, None) is None:
            return ()
        return (self.notice(NoticeKind.RECOVERED, what),)

    def forget(self, *kinds: NoticeKind) -> None:
        """Take back what was said, without a word."""
        for kind in kinds:
            self._notices.pop(kind, None)

    def holds(self, finding: FileFinding) -> bool:
        """Whether this was said of a file, and held at the last look."""
        return finding in self._findings

    def found(self, findings: tuple[FileFinding, ...]) -> Notices:
        """Say what cannot be read and was not said yet; what is not among them is over."""
        new = [finding for finding in findings if finding not in self._findings]
        self._findings = set(findings)
        return tuple(
            self.notice(
                NoticeKind.UNREADABLE,
                str(finding),
                finding.cause,
                "look at the file; the newest batch before it that can be read counts",
            )
            for finding in new
        )
