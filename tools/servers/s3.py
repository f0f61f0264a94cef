"""A server of the S3 API (s3proxy) on a free port of the loopback interface.

Buckets are folders in its folder, and objects are files in them. A server that was killed is started again with the
same folder and port. It holds the rule of ``If-None-Match: *``: of many writers of one name one wins.
"""

from pathlib import Path

from tools.servers.java_server import LOOPBACK, JavaServer, free_port

VERSION = "4.1.0"
PROPERTIES = """\
s3proxy.endpoint=http://{host}:{port}
s3proxy.authorization=aws-v4
s3proxy.identity={user}
s3proxy.credential={secret}
jclouds.provider=filesystem
jclouds.filesystem.basedir={data}
"""


class S3Server(JavaServer):
    """One server with its folder, and one user, who may do everything."""

    def __init__(self, folder: Path, user: str, secret: str, host: str = LOOPBACK) -> None:
        """Prepare the folder, without a process. Raises ServerMissing when there is no server for this machine."""
        super().__init__("s3proxy", VERSION, folder, host)
        self._user, self._secret = user, secret
        self._configure()

    @property
    def endpoint(self) -> str:
        """Return what a job calls ``endpoint``."""
        return f"http://{self.host}:{self.port}"

    def bucket(self, name: str) -> str:
        """Make a bucket, and return what a job calls ``url``."""
        (self._data / name).mkdir(parents=True, exist_ok=True)
        return f"s3://{name}"

    def _configure(self) -> None:
        self.port = free_port(self.host)
        self._data.mkdir(exist_ok=True)
        text = PROPERTIES.format(host=self.host, port=self.port, user=self._user, secret=self._secret, data=self._data)
        self._settings.write_text(text)

    def _words(self) -> list[str]:
        return ["org.gaul.s3proxy.Main", "--properties", str(self._settings)]

    @property
    def _data(self) -> Path:
        return self._folder / "buckets"
