# GNU General Public License v3.0 or later (see LICENSE)
"""What is known of names of settings beyond the catalogues: old names, removed names, names that are not for users.

All names are in lower case. Sources: release notes of PostgreSQL 9.5 to 18; for EPAS its summary of configuration parameters
(column "EPAS Only") and the settings list of the published T-shirt runs.
"""

from __future__ import annotations

_LISTS = """
    createrole_self_grant datestyle debug_io_direct listen_addresses local_preload_libraries log_connections log_destination
    oauth_validator_libraries restrict_nonsystem_relation_kind search_path session_preload_libraries shared_preload_libraries
    synchronized_standby_slots synchronous_standby_names temp_tablespaces unix_socket_directories wal_consistency_checking
"""
#: Settings that take a comma-separated list, so that a YAML list may be given.
LISTS = frozenset(_LISTS.split())
PRELOADS = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")
LOCALES = ("lc_messages", "lc_monetary", "lc_numeric", "lc_time")

_FOLDER = "the sockets lie in the cluster's own folder"
_FILES = "the files of the cluster belong to the toolkit"
_INCLUDE = "an include is no setting: list the settings themselves"
_LOG = "the server log is read after each trial and stays where it is"
#: What the toolkit sets itself, and why nobody else may.
OURS = {
    "port": "the plan chooses the port of the private cluster",
    "listen_addresses": "the private cluster listens where its driver is",
    "cluster_name": "the private cluster carries its own name",
    "unix_socket_directories": _FOLDER,
    "unix_socket_group": _FOLDER,
    "unix_socket_permissions": _FOLDER,
    "data_directory": _FILES,
    "config_file": _FILES,
    "hba_file": _FILES,
    "ident_file": _FILES,
    "external_pid_file": _FILES,
    "include": _INCLUDE,
    "include_if_exists": _INCLUDE,
    "include_dir": _INCLUDE,
    "log_destination": _LOG,
    "logging_collector": _LOG,
}

#: Facts that no configuration file can set, and what does set them.
INTERNAL = {
    "block_size": "the build option --with-blocksize",
    "segment_size": "the build option --with-segsize",
    "wal_block_size": "the build option --with-wal-blocksize",
    "debug_assertions": "the build option --enable-cassert",
    "wal_segment_size": "the initdb option --wal-segsize",
    "data_checksums": "the initdb option --data-checksums",
    "data_directory_mode": "the initdb option --allow-group-access",
    "server_encoding": "the initdb option --encoding",
    "lc_collate": "the initdb option --lc-collate",
    "lc_ctype": "the initdb option --lc-ctype",
    "server_version": "the installed server (postgres_version)",
    "server_version_num": "the installed server (postgres_version)",
    "transaction_isolation": "each transaction (default_transaction_isolation can be set)",
    "transaction_read_only": "each transaction (default_transaction_read_only can be set)",
    "transaction_deferrable": "each transaction (default_transaction_deferrable can be set)",
}

#: Old name -> name since; the translation works in both directions.
RENAMED = {
    "sort_mem": "work_mem",  # 8.0; the server still takes these two
    "vacuum_mem": "maintenance_work_mem",  # 8.0
    "unix_socket_directory": "unix_socket_directories",  # 9.3
    "replication_timeout": "wal_sender_timeout",  # 9.3
    "min_parallel_relation_size": "min_parallel_table_scan_size",  # 10
    "trigger_file": "promote_trigger_file",  # 12
    "force_parallel_mode": "debug_parallel_query",  # 16
    "ssl_ecdh_curve": "ssl_groups",  # 18
}
OLDER = {new: old for old, new in RENAMED.items()}

#: Old name, counted in WAL segments -> (name of the size since, WAL segments of that size for one of the old).
SEGMENTS = {
    "checkpoint_segments": ("max_wal_size", 3),  # 9.5
    "wal_keep_segments": ("wal_keep_size", 1),  # 13
}

#: Name -> (version without it, value that this version behaves like or ``None`` for any, what became of it).
REMOVED: dict[str, tuple[str, str | None, str]] = {
    "max_fsm_pages": ("8.4", None, "the free space map sizes itself"),
    "max_fsm_relations": ("8.4", None, "the free space map sizes itself"),
    "add_missing_from": ("9.0", "off", "a query names all its tables"),
    "silent_mode": ("9.2", None, "pg_ctl takes its place"),
    "wal_sender_delay": ("9.2", None, "senders are woken when there is something to send"),
    "krb_srvname": ("9.4", None, "native Kerberos authentication is gone"),
    "ssl_renegotiation_limit": ("9.5", None, "connections are no longer renegotiated"),
    "sql_inheritance": ("10", "on", "queries always include child tables"),
    "replacement_sort_tuples": ("11", None, "sorts no longer use replacement selection"),
    "default_with_oids": ("12", "off", "tables have no OID column"),
    "standby_mode": ("12", "off", "a standby is made by the file standby.signal"),
    "operator_precedence_warning": ("14", None, "it only warned"),
    "vacuum_cleanup_index_scale_factor": ("14", "0.1", "VACUUM decides by itself"),
    "stats_temp_directory": ("15", None, "statistics live in shared memory"),
    "promote_trigger_file": ("16", None, "pg_promote() takes its place; a primary never read it"),
    "vacuum_defer_cleanup_age": ("16", "0", "hot_standby_feedback and replication slots take its place"),
    "old_snapshot_threshold": ("17", "-1", "snapshots no longer grow too old"),
    "db_user_namespace": ("17", "off", "roles are never per database"),
    "trace_recovery_messages": ("17", None, "it only traced"),
}

_EPAS = """
    custom_variable_classes data_encryption_key_unwrap_command db_dialect default_heap_fillfactor default_with_rowids enable_hints
    icu_short_form nls_length_semantics odbc_lib_path optimizer_mode oracle_home qreplace_function query_rewrite_enabled
    query_rewrite_integrity timed_statistics trace_hints
"""
EPAS_NAMES = frozenset(_EPAS.split())
EPAS_PREFIXES = ("edb_", "edbldr.", "dbms_", "index_advisor.", "sql_profiler.", "utl_encode.", "utl_file.")
#: Libraries beside those that begin with ``dbms_`` or ``edb_``.
EPAS_LIBRARIES = frozenset(("index_advisor", "query_advisor", "sql-profiler", "sqlprofiler", "sqlprotect"))
EPAS_DATESTYLES = frozenset(("redwood", "show_time"))
