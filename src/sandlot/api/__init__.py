"""The hub's HTTP contract: what goes over the wire, by resource. Server and client share these classes.

Invariants: snake_case JSON; a list is `{"items": […], "next_cursor": …}`; an error is an RFC 9457 problem document with
a stable `code`; unknown fields in an answer are ignored by the client, in a request they are refused by the server.
"""

from sandlot.api.accounts import (
    DEFAULT_SCOPES,
    SCOPES,
    Account,
    KeyCreate,
    KeyCreated,
    KeyInfo,
    Login,
    Me,
    Member,
    MemberPut,
    OrganisationCreate,
)
from sandlot.api.packages import (
    FileInfo,
    Install,
    PackageInfo,
    PackagePatch,
    PackageSummary,
    Published,
    ReleaseInfo,
    ReleaseSummary,
    SourceEntry,
    SourceFile,
    UploadCreate,
    UploadFile,
    UploadInfo,
    Visibility,
    YankRequest,
)
from sandlot.api.page import Page
from sandlot.api.problem import PROBLEM_TYPE, Problem
from sandlot.api.runs import (
    MAX_BATCH_BYTES,
    MAX_LINE_BYTES,
    BatchReceipt,
    RolloutSummary,
    RunCreate,
    RunEnvironment,
    RunInfo,
    RunPatch,
)

__all__ = [
    "DEFAULT_SCOPES",
    "MAX_BATCH_BYTES",
    "MAX_LINE_BYTES",
    "PROBLEM_TYPE",
    "SCOPES",
    "Account",
    "BatchReceipt",
    "FileInfo",
    "Install",
    "KeyCreate",
    "KeyCreated",
    "KeyInfo",
    "Login",
    "Me",
    "Member",
    "MemberPut",
    "OrganisationCreate",
    "PackageInfo",
    "PackagePatch",
    "PackageSummary",
    "Page",
    "Problem",
    "Published",
    "ReleaseInfo",
    "ReleaseSummary",
    "RolloutSummary",
    "RunCreate",
    "RunEnvironment",
    "RunInfo",
    "RunPatch",
    "SourceEntry",
    "SourceFile",
    "UploadCreate",
    "UploadFile",
    "UploadInfo",
    "Visibility",
    "YankRequest",
]
