"""Opens sources and sinks as a graph describes them. Only this module knows every kind."""

from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.connectors.delta.delta_sink import DeltaSink
from penstock.connectors.delta.delta_source import DeltaSource, delta_log
from penstock.connectors.discard_sink import DiscardSink, DiscardSpec
from penstock.connectors.file_output import FileForm, parquet_form
from penstock.connectors.file_sink import FileSink
from penstock.connectors.folder_columns import FolderColumns
from penstock.connectors.followed_folder import FollowedFolder, check_followed
from penstock.connectors.generator import SCHEMA as GENERATED
from penstock.connectors.generator import WordSource
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.connectors.iceberg.iceberg_source import IcebergSource, iceberg_log
from penstock.connectors.ingest import IngestSource, ingest_schema
from penstock.connectors.kafka.client import client_settings
from penstock.connectors.kafka.direct_sink import DirectKafkaSink
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.kafka.kafka_source import KafkaSource, source_schema
from penstock.connectors.parquet_source import ParquetSource, check_files, plain_schema
from penstock.connectors.postgres.postgres_lookup import PostgresTable
from penstock.connectors.postgres.postgres_sink import PostgresSink
from penstock.connectors.published import plain_step
from penstock.connectors.s3.object_folder import open_folder
from penstock.connectors.s3.object_path import ObjectPath
from penstock.connectors.s3.s3_sink import S3Sink
from penstock.connectors.secret_places import read_secret
from penstock.connectors.text_formats import csv_form, json_form
from penstock.connectors.text_source import TextForm, TextSource, check_text_files, declared_schema
from penstock.contract.bad_records import OnBadRecord
from penstock.contract.columns import Columns
from penstock.contract.connectors import Role, WordsSpec, connector_kinds
from penstock.contract.delta_options import DeltaInput, DeltaOutput
from penstock.contract.graph import Connector, Source
from penstock.contract.iceberg_options import IcebergInput, IcebergOutput
from penstock.contract.kafka_options import Delivery, KafkaInput, KafkaOutput
from penstock.contract.postgres_options import PostgresLookup, PostgresOutput
from penstock.contract.s3_options import FileFormat, S3Input, S3Output
from penstock.contract.schema import SECRET_PLACE, rows_of
from penstock.file_system import OS_FILES
from penstock.ports import FileSystem
from penstock.ports import Lookup as LookupPort
from penstock.ports import Sink as SinkPort
from penstock.ports import Source as SourcePort


def open_source(source: Source, files: FileSystem = OS_FILES) -> SourcePort:
    """Open a source step. Raises ConfigError for an unknown kind or a missing input."""
    connector = source.connector
    match connector.kind:
        case "parquet":
            rate = int(connector.options.get("rate") or 0) or None
            folders = _folders(connector, source.columns)
            return ParquetSource(_path(connector), source.columns, source.event_time, rate, folders)
        case "json" | "csv":
            rate = int(connector.options.get("rate") or 0) or None
            form, every_s = _text(connector, source.columns), connector.options.get("follow")
            if every_s:
                return FollowedFolder(_path(connector), form, float(every_s), source.event_time, rate)
            return TextSource(_path(connector), form, source.event_time, rate)
        case "kafka":
            return KafkaSource(_kafka_input(connector), source.columns, source.event_time)
        case "s3":
            return _open_objects(source)
        case "delta":
            return DeltaSource(_delta_input(connector), source.columns, source.event_time)
        case "iceberg":
            return IcebergSource(_iceberg_input(connector), source.columns, source.event_time)
        case "generator":
            return WordSource(_words(connector, source.columns))
        case "ingest":
            partitions, folder = _ingest(connector)
            return IngestSource(partitions, folder, source.columns, source.event_time, files)
        case _:
            raise ConfigError(unknown("source", connector.kind, connector_kinds(Role.SOURCE)))


def open_sink(
    step: str, connector: Connector, schema: pa.Schema, files: FileSystem = OS_FILES, *, staging: Path
) -> SinkPort:
    """Open a sink step for rows of ``schema``. Raises ConfigError for an unknown kind.

    ``staging`` is a folder that all workers of the job see, for output that cannot wait where it will be.
    """
    match connector.kind:
        case "parquet":
            return FileSink(step, _path(connector), _rolled(parquet_form(schema), connector), files)
        case "json":
            return FileSink(step, _path(connector), _rolled(json_form(schema), connector), files)
        case "csv":
            return FileSink(step, _path(connector), _rolled(csv_form(schema), connector), files)
        case "kafka":
            options = KafkaOutput(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]
            if options.delivery == Delivery.AT_LEAST_ONCE:
                return DirectKafkaSink(step, options, schema)
            return KafkaSink(step, options, schema, staging / plain_step(step), files)
        case "postgres":
            table = PostgresOutput(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]
            return PostgresSink(step, table, schema, staging / plain_step(step), files)
        case "s3":
            objects = S3Output(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]
            return S3Sink(step, objects, schema, staging / plain_step(step), files)
        case "delta":
            delta = DeltaOutput(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]
            return DeltaSink(step, delta, schema, staging / plain_step(step), files)
        case "iceberg":
            iceberg = IcebergOutput(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]
            return IcebergSink(step, iceberg, schema, staging / plain_step(step), files)
        case "discard":
            return DiscardSink(step, schema, _discard(connector))
        case _:
            raise ConfigError(unknown("sink", connector.kind, connector_kinds(Role.SINK)))


def open_lookup(connector: Connector) -> LookupPort:
    """Open the table of a lookup. Connects nothing yet. Raises ConfigError for an unknown kind."""
    match connector.kind:
        case "postgres":
            return PostgresTable(PostgresLookup(**{k: v for k, v in connector.options.items() if v is not None}))  # type: ignore[arg-type]
        case _:
            raise ConfigError(unknown("lookup", connector.kind, connector_kinds(Role.LOOKUP)))


class ConnectorInspector:
    """Inspects the inputs of a graph before anything runs."""

    def source_schema(self, connector: Connector, columns: Columns) -> pa.Schema:
        """Return a source's columns, without hidden ones. Raises ConfigError naming the input."""
        match connector.kind:
            case "parquet":
                return plain_schema(Path(_path(connector)), columns, _folders(connector, columns))
            case "json" | "csv":
                form = _text(connector, columns)
                _check_text(connector, form)
                return form.schema
            case "kafka":
                return source_schema(_kafka_input(connector), columns)
            case "s3":
                return _objects_schema(connector, columns)
            case "delta":
                return delta_log(_delta_input(connector), columns).schema
            case "iceberg":
                return iceberg_log(_iceberg_input(connector), columns).schema
            case "ingest":
                return ingest_schema(columns)
            case "generator":
                return WordSource(_words(connector, columns)).schema
            case _:
                raise ConfigError(unknown("source", connector.kind, connector_kinds(Role.SOURCE)))

    def check_files(self, connector: Connector, columns: Columns) -> None:
        """Check every file of an input of files, the options of a topic, and that a table is there.

        Takes about a millisecond a file. No broker is asked. Raises ConfigError naming what is wrong, NotThere when
        there is no table, and StorageError when the store or catalog of a table does not answer.
        """
        if connector.kind == "parquet":
            check_files(Path(_path(connector)), columns, _folders(connector, columns))
        elif connector.kind in ("json", "csv"):
            _check_text(connector, _text(connector, columns))
        elif connector.kind == "s3":
            path, form, follow = _objects(connector, columns)
            if form is None:
                check_files(path, columns, _folders(connector, columns))
            else:
                (check_followed if follow else check_text_files)(path, form)
        elif connector.kind == "kafka":
            source_schema(_kafka_input(connector), columns)
        elif connector.kind == "delta":
            delta_log(_delta_input(connector), columns)
        elif connector.kind == "iceberg":
            iceberg_log(_iceberg_input(connector), columns)

    def check_sink(self, step: str, connector: Connector, schema: pa.Schema) -> None:
        """Check the options of a sink step for rows of ``schema``. Nothing is asked or made. Raises ConfigError."""
        open_sink(step, connector, schema, staging=Path()).close()

    def check_secrets(self, role: Role, connector: Connector) -> None:
        """Read the secrets and the file of a client's settings that options name: workers need them here, too.

        Raises ConfigError naming the option and what is missing, StorageError for what cannot be read.
        """
        for row in rows_of(connector_kinds(role)[connector.kind].options):
            place = connector.options.get(row.target)
            if not isinstance(place, str):
                continue
            if row.pattern == SECRET_PLACE:
                read_secret(place, f"{connector.kind}: {row.name}")
            elif row.target == "client_file":
                client_settings("", place)

    def check_lookup(self, connector: Connector) -> None:
        """Check the options of a lookup. Nothing is asked. Raises ConfigError."""
        open_lookup(connector)

    def bounded(self, connector: Connector) -> bool:
        """Return whether the source ends."""
        return connector_kinds(Role.SOURCE)[connector.kind].bounded.ends(connector.options)


def _kafka_input(connector: Connector) -> KafkaInput:
    return KafkaInput(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]


def _delta_input(connector: Connector) -> DeltaInput:
    return DeltaInput(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]


def _iceberg_input(connector: Connector) -> IcebergInput:
    return IcebergInput(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]


def _open_objects(source: Source) -> SourcePort:
    path, form, follow = _objects(source.connector, source.columns)
    rate = int(source.connector.options.get("rate") or 0) or None
    if form is None:
        folders = _folders(source.connector, source.columns)
        return ParquetSource(path, source.columns, source.event_time, rate, folders)
    if follow:
        return FollowedFolder(path, form, follow, source.event_time, rate)
    return TextSource(path, form, source.event_time, rate)


def _objects_schema(connector: Connector, columns: Columns) -> pa.Schema:
    path, form, follow = _objects(connector, columns)
    if form is None:
        return plain_schema(path, columns, _folders(connector, columns))
    (check_followed if follow else check_text_files)(path, form)
    return form.schema


def _objects(connector: Connector, columns: Columns) -> tuple[ObjectPath, TextForm | None, float | None]:
    """Return the folder of a bucket, the form of its text files (None for Parquet), and ``follow``."""
    options = S3Input(**{k: v for k, v in connector.options.items() if v is not None})  # type: ignore[arg-type]
    path = ObjectPath(open_folder(options))
    if options.format != FileFormat.PARQUET:
        schema, folders = declared_schema(options.format, columns), _folders(connector, columns)
        form = TextForm(options.format, schema, options.delimiter, folders, _has_letters(connector))
        return path, form, options.follow
    if _has_letters(connector):
        raise ConfigError("s3: onError: it is for json and csv: a file of Parquet decodes as a whole, or not at all")
    if options.follow:
        raise ConfigError("s3: follow: it reads json and csv; a folder of Parquet cannot grow while a job reads it")
    return path, None, None


def _text(connector: Connector, columns: Columns) -> TextForm:
    delimiter = str(connector.options.get("delimiter") or ",")
    schema = declared_schema(connector.kind, columns)
    return TextForm(connector.kind, schema, delimiter, _folders(connector, columns), _has_letters(connector))


def _has_letters(connector: Connector) -> bool:
    return connector.options.get("on_error") == OnBadRecord.DEAD_LETTER


def _folders(connector: Connector, columns: Columns) -> FolderColumns:
    return FolderColumns(connector.options.get("partition_by"), columns)


def _check_text(connector: Connector, form: TextForm) -> None:
    check = check_followed if connector.options.get("follow") else check_text_files
    check(Path(_path(connector)), form)


def _rolled(form: FileForm, connector: Connector) -> FileForm:
    return replace(form, part_bytes=int(connector.options.get("roll_bytes") or 0) or None)


def _path(connector: Connector) -> str:
    return str(connector.options["path"])


def _ingest(connector: Connector) -> tuple[int, str]:
    return int(connector.options["partitions"] or 0), str(connector.options["announce"])


def _words(connector: Connector, columns: Columns) -> WordsSpec:
    for column in columns:
        if column.name not in GENERATED.names:
            raise ConfigError(f"generator: {unknown('column', column.name, GENERATED.names)}")
    known = {f.name for f in fields(WordsSpec)}
    return WordsSpec(**{k: v for k, v in connector.options.items() if k in known and v is not None})  # type: ignore[arg-type]


def _discard(connector: Connector) -> DiscardSpec:
    options = connector.options
    report = options.get("report")
    return DiscardSpec(
        str(report) if report else None,
        float(options.get("stall_after") or 0.0),
        float(options.get("stall_for") or 0.0),
        float(options.get("mark_after") or 0.0),
    )
