"""`python -m examples.certification`: serve the fixture of the AuthZEN certification scenario until stopped.

Everybody may ask, so it listens on loopback alone. With `--tls` it speaks https under a certificate that it makes for
itself, as the scenario's level Discovery wants; without, plain http. What a run needs lies in a temporary folder, and
goes with it. AuthZEN Authorization API 1.0, certification scenario.
"""

import argparse
import tempfile
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from arap_service import cli
from arap_service.key_file import write_new_ring
from arap_service.store import migrate
from arap_service.surroundings import utc_now

RULES: Final = Path(__file__).with_name("rules.yaml")
HOST: Final = "127.0.0.1"


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="make serve-certification", description=__doc__)
    parser.add_argument("--port", type=int, default=8401, help="where to listen (make serve-certification PORT=…)")
    parser.add_argument("--tls", action="store_true", help="speak https (make serve-certification TLS=1)")
    parser.add_argument("--die-with-stdin", action="store_true", help="stop when standard input ends")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arap-certification-") as folder:
        config = prepare(Path(folder), port=options.port, tls=options.tls)
        if options.tls:
            print(f"The certificate to trust: {Path(folder) / 'certificate.pem'}", flush=True)
        more = ["--die-with-stdin"] if options.die_with_stdin else []
        cli.app(["serve", "--config", str(config), *more])


def prepare(folder: Path, *, port: int, tls: bool) -> Path:
    """Write everything that a run needs into `folder`; the path of the configuration."""
    identifier = f"{'https' if tls else 'http'}://{HOST}:{port}"
    database = f"sqlite:///{folder / 'arap.db'}"
    settings = {
        "identifier": identifier,
        "bind": f"{HOST}:{port}",
        "authentication": "none",
        "insecure_loopback": not tls,
        "database": database,
        "policy_path": str(RULES),
        "key_file": "keys.json",
        "log_level": "warning",
    }
    if tls:
        write_certificate(folder / "certificate.pem", folder / "key.pem", now=utc_now())
        settings["tls"] = {"certificate": "certificate.pem", "key": "key.pem"}
    write_new_ring(folder / "keys.json")
    migrate.upgrade(database)
    config = folder / "arap.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return config


def write_certificate(certificate: Path, key: Path, *, now: datetime) -> None:
    """Make a key and a certificate that signs itself, for this machine and a month."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.touch(mode=0o600)
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


if __name__ == "__main__":
    main()
