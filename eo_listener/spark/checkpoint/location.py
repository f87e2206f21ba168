"""Reads the files of a checkpoint, on any storage, through fsspec; writes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fsspec

from eo_listener.errors import EoListenerError, SettingsError, StorageError

# Hadoop's names of schemes, and fsspec's.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
_PACKAGES = {
    "s3": "s3fs",
    "abfs": "adlfs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hdfs": "pyarrow",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "oss": "ossfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "webhdfs": "requests",
    "dbfs": "requests",
}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)(.*)", re.DOTALL)
# A password may contain an `@`, so it ends at the last `@` before the path. The text after a `?` is
# usually a signature (Azure's SAS, presigned links).
_SECRET = re.compile(r"(?<=://)[^/\s]*:[^/\s]*@")
_QUERY = re.compile(r"(://[^\s?]*\?)[^\s]+")
_ORACLE = re.compile(r"(jdbc:oracle:\w+:)[^\s/]+/\S*@")
_SETTING = re.compile(
    r"(?i)((?:password|secret|token|credential)[\w.-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|\S+)"
)
NONE: Mapping[str, Any] = MappingProxyType({})


class Location:
    """A folder on any file system: a local path, or a URL in the form of Spark or fsspec.

    `options` go to fsspec's driver. Raises SettingsError for an invalid URL or invalid options, and
    StorageError if the driver is not installed or does not load. The constructor does not read the
    folder.
    """

    def __init__(self, url: str, options: Mapping[str, Any] = NONE) -> None:
        if not url.strip() or "\0" in url:
            raise SettingsError(
                f"the checkpoint must be a folder or a URL, got {url!r}",
                fix="Name the checkpoint's folder or URL",
            )
        self._shown = shown(url)
        self._options = dict(options)
        self._scheme, target = _translate(url)
        try:
            # A separate instance: fsspec would share one, and its listing cache, with other code.
            self._files, self._path = fsspec.core.url_to_fs(
                target, **{**options, "skip_instance_cache": True}
            )
        except EoListenerError:
            raise
        except ImportError as error:
            package = _PACKAGES.get(self._scheme)
            raise StorageError(
                f"{self} cannot be read: no driver for {self._scheme}:// is installed",
                cause=None if package else str(error),
                fix=f"Run: pip install {package}" if package else "Install it with pip",
            ) from None
        except OSError as error:
            # Such as a missing libhdfs or JVM: only the text of the error names it.
            raise StorageError(
                f"{self} cannot be opened: the driver for {self._scheme}:// did not load",
                cause=_reason(error, options),
                fix="Install what it needs (for hdfs://: libhdfs, a JVM and Hadoop's CLASSPATH)",
            ) from None
        except Exception as error:  # noqa: BLE001  # see the next line
            # A driver may raise anything for settings that it rejects, and its text may quote them.
            raise SettingsError(
                f"{self} cannot be opened ({type(error).__name__})",
                cause=f"fsspec does not support {self._scheme}:// or these options",
                fix="Check the URL and the storage options",
            ) from None

    def __str__(self) -> str:
        return self._shown

    @property
    def key(self) -> str:
        """A text that is the same for all spellings of the folder."""
        path = str(Path(self._path).resolve()) if self.local else self._path
        return f"{self._scheme}:{path}"

    @property
    def local(self) -> bool:
        """True if the folder is on a local file system, on which Hadoop keeps checksums."""
        return self._scheme == "file"

    def names(self, folder: str = "") -> frozenset[str] | None:
        """Return the names in a folder, or None if there is no such folder. Raises StorageError."""
        path = self._below(folder)
        try:
            self._files.invalidate_cache(path)
            paths = self._files.ls(path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:  # noqa: BLE001  # every driver has errors of its own
            raise self._failed(folder, error) from None
        # An object store lists the folder's own marker too, and for a file it lists the file
        # itself.
        return frozenset(
            name.rstrip("/").rsplit("/", 1)[-1]
            for name in paths
            if name.rstrip("/").strip("/") != path.strip("/")
        )

    def read(self, file: str, limit: int) -> bytes | None:
        """Return the first `limit` bytes of a file, or None if there is no such file.

        Raises StorageError.
        """
        try:
            with self._files.open(self._below(file), "rb", **self._unbuffered()) as opened:
                return bytes(opened.read(limit))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            return b""
        except Exception as error:  # noqa: BLE001  # as in `names`
            raise self._failed(file, error) from None

    def _below(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}" if name else self._path

    def _unbuffered(self) -> dict[str, Any]:
        return {} if self.local else {"cache_type": "none"}

    def _failed(self, name: str, error: Exception) -> StorageError:
        return StorageError(
            f"{self}{'/' if name else ''}{name} cannot be read ({type(error).__name__})",
            cause=_reason(error, self._options),
            fix="Check the address, and the permissions and credentials of this process",
        )


def _reason(error: Exception, options: Mapping[str, Any] = NONE) -> str | None:
    """Return the first line of a driver's error, without the secrets in URLs and `options`."""
    lines = str(error).strip().splitlines()
    if not lines:
        return None
    text = shown(lines[0])
    for value in map(str, options.values()):
        text = text.replace(value, "***") if value else text
    return text[:200]


def shown(text: str) -> str:
    """Return `text`, which may have URLs and settings, without their secrets."""
    for secret, public in (
        (_SECRET, "***@"),
        (_ORACLE, r"\1***@"),
        (_QUERY, r"\1***"),
        (_SETTING, r"\1***"),
    ):
        text = secret.sub(public, text)
    return text


def has_scheme(url: str) -> bool:
    """Return True if `url` begins with the scheme of a file system."""
    return _URL.fullmatch(url) is not None


def _translate(url: str) -> tuple[str, str]:
    """Return fsspec's name for the URL's scheme, and the URL with that name."""
    match = _URL.fullmatch(url)
    if match is None:
        return "file", url
    scheme = _SCHEMES.get(match[1].lower(), match[1].lower())
    rest = match[2]
    if scheme in {"file", "local"}:
        return "file", "/" + rest.lstrip("/")  # Hadoop writes file:/x as well as file:///x
    if match[1].lower().startswith("wasb"):
        rest = rest.replace(".blob.", ".dfs.", 1)
    return scheme, f"{scheme}:{rest}"
