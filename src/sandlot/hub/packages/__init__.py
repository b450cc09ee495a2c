"""Packages: publishing, releases, files and the index that pip and uv read."""

from sandlot.hub.packages.archives import Limits
from sandlot.hub.packages.index import Index
from sandlot.hub.packages.publish import Publishing
from sandlot.hub.packages.queries import PackageQuery, find_package
from sandlot.hub.packages.sdk import Sdk
from sandlot.hub.packages.service import Packages

__all__ = ["Index", "Limits", "PackageQuery", "Packages", "Publishing", "Sdk", "find_package"]
