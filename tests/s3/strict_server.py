#!/usr/bin/env python3
"""An S3 server on loopback that takes nothing on trust, and misbehaves when it is told to.

Signatures are worked out once more from Amazon's description of version 4, and everything that decides about them has to be
as it says there; conditions, sizes of parts and hashes of bodies are held to. Prints its port, then takes commands on standard
input, a line each, and answers each with a line: `load BUCKET KEY FILE`, `save BUCKET KEY FILE`, `delete BUCKET KEY`,
`fault OPERATION KIND TIMES` (operation `any` or one of those in `counts`), `calm`, `counts`, `headers BUCKET KEY`, `require TOKEN`,
`tls FILE` (key and certificate; answers with another port).
The end of its input is its own end.
"""
import collections
import datetime
import hashlib
import hmac
import http.server
import json
import re
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree

ACCESS_KEY, SECRET_KEY, REGION = "AKIDTIERMAP", "wJalr/XUtn+FEMI=K7MDENG", "eu-test-1"
PUBLIC = "public"  # The bucket that anybody may read.
LEAST_PART = 5 << 20
HEADERS_KEPT = re.compile(r"content-type|x-amz-meta-.*")


class Refusal(Exception):
    def __init__(self, status, code, more=""):
        super().__init__(code)
        self.status, self.code, self.more = status, code, more


class State:
    def __init__(self):
        self.lock = threading.Lock()
        self.objects, self.uploads, self.faults = {}, {}, []
        self.counts = collections.Counter()
        self.token = None

    def take_fault(self, operation):
        with self.lock:
            for fault in self.faults:
                if fault[0] in ("any", operation) and fault[2] > 0:
                    fault[2] -= 1
                    return fault[1]
        return None


STATE = State()


def make(body, headers, etag=None):
    return {"body": body, "etag": etag or f'"{hashlib.md5(body).hexdigest()}"',
            "headers": {name.lower(): value for name, value in headers.items() if HEADERS_KEPT.fullmatch(name.lower())}}


def strictly_encoded(text, safe):
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(text), safe=safe)


def check_signature(method, target, headers, body):
    """Raises a Refusal unless the request is signed as it should be."""
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?"
                         r"Signature=([0-9a-f]{64})", headers.get("Authorization", ""))
    if not match:
        raise Refusal(403, "AccessDenied")
    access, day, region, names, signature = match.groups()
    names = names.split(";")
    if access != ACCESS_KEY:
        raise Refusal(403, "InvalidAccessKeyId")
    if region != REGION:
        raise Refusal(400, "AuthorizationHeaderMalformed", f"<Region>{REGION}</Region>")
    stamp = headers.get("x-amz-date", "")
    then = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if abs((datetime.datetime.now(datetime.timezone.utc) - then).total_seconds()) > 900 or not stamp.startswith(day):
        raise Refusal(403, "RequestTimeTooSkewed")
    must = {"host"} | {name.lower() for name in headers if name.lower().startswith("x-amz-")}
    if names != sorted(names) or not must <= set(names):
        raise Refusal(403, "AccessDenied", f"<Message>not signed: {must - set(names)}</Message>")
    if STATE.token is not None and headers.get("x-amz-security-token") != STATE.token:
        raise Refusal(403, "InvalidToken")
    path, _, query = target.partition("?")
    pairs = sorted(tuple(strictly_encoded(part, "-_.~") for part in pair.partition("=")[::2])
                   for pair in query.split("&") if pair)
    claimed = headers.get("x-amz-content-sha256", "")
    if claimed != hashlib.sha256(body).hexdigest():
        raise Refusal(400, "XAmzContentSHA256Mismatch")
    canonical = "\n".join([
        method, strictly_encoded(path, "/-_.~"), "&".join("=".join(pair) for pair in pairs),
        *(f"{name}:{' '.join((headers.get(name) or '').split())}" for name in names), "", ";".join(names), claimed])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET_KEY).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), signature):
        raise Refusal(403, "SignatureDoesNotMatch", "<Message>The signature is another one.\nTwo lines &amp; more</Message>")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        with STATE.lock:
            STATE.counts["connections"] += 1

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=None, announced=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def refuse(self, status, code, more=""):
        message = "" if "<Message>" in more else f"<Message>It is {code}.</Message>"
        self.answer(status, f'<?xml version="1.0"?>\n<Error><Code>{code}</Code>{message}{more}</Error>'.encode())

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        place = urllib.parse.unquote_to_bytes(path).decode("latin-1").lstrip("/")
        host = self.headers["Host"].split(":")[0]
        if host.endswith(".localhost"):
            place = host.removesuffix(".localhost") + "/" + place
        bucket, _, key = place.partition("/")
        query = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
        operation = self.operation_of(query)
        with STATE.lock:
            STATE.counts[operation] += 1
        fault = STATE.take_fault(operation)
        try:
            if fault is not None and self.misbehave(fault):
                return
            if not (bucket == PUBLIC and self.command == "GET" and "Authorization" not in self.headers):
                check_signature(self.command, self.path, self.headers, body)
            if bucket not in ("bucket", PUBLIC):
                raise Refusal(404, "NoSuchBucket")
            quiet = fault in ("lost", "late")
            status, content, headers = getattr(self, "do_" + operation)((bucket, key), query, body)
            if fault == "lost":
                self.reset()
            elif fault == "late":
                self.refuse(200, "InternalError")
            elif not quiet:
                self.give(fault, status, content, headers)
        except Refusal as refusal:
            self.refuse(refusal.status, refusal.code, refusal.more)

    do_GET = do_PUT = do_POST = do_DELETE = handle_request

    def operation_of(self, query):
        if self.command == "GET":
            return "get"
        if self.command == "DELETE":
            return "give_up"
        if self.command == "POST":
            return "begin" if "uploads" in query else "complete"
        return "put" if "uploadId" not in query else "copy" if "x-amz-copy-source" in self.headers else "part"

    def misbehave(self, fault):
        """What takes the place of an answer."""
        if fault.isdigit():
            self.refuse(int(fault), {"503": "SlowDown", "409": "ConditionalRequestConflict"}.get(fault, "InternalError"))
        elif fault == "reset":
            self.reset()
        elif fault.startswith("stall"):
            time.sleep(float(fault[5:]))
            self.reset()
        elif fault == "garbage":
            self.answer(500, b"<Error><Code>" + bytes(range(256)) * 1024)
        elif fault == "portal":
            self.answer(200, b"<html>Say who you are first.</html>", {"ETag": '"portal"'})
        elif fault == "header":
            self.answer(200, b"", {"x-long": "x" * 200_000})
            self.close_connection = True
        elif fault == "endless":
            self.answer(403, b"<Error>" + b"x" * (1 << 20), announced=1 << 40)
            self.close_connection = True
        else:
            return False
        return True

    def give(self, fault, status, content, headers):
        """An answer, as it is or not quite."""
        announced = len(content)
        if fault == "short":
            content = content[:len(content) // 2]
            self.close_connection = True
        elif fault == "range":
            headers["Content-Range"] = re.sub(r"bytes (\d+)-", lambda found: f"bytes {int(found[1]) + 1}-",
                                              headers["Content-Range"])
        elif fault == "etag":
            headers["ETag"] = '"another"'
        elif fault == "weak":
            headers["ETag"] = "W/" + headers["ETag"]
        elif fault == "whole":
            status = 200
            headers.pop("Content-Range", None)
        elif fault == "shifted":
            content = content[1:] + b"?"
            headers["Content-Range"] = "bytes 0-0/1"
        elif fault == "more":
            content += b"more than was asked for"
            announced = len(content)
        self.answer(status, content, headers, announced)

    def checked(self, name):
        """The object, if what is asked of it holds."""
        found = STATE.objects.get(name)
        if self.headers.get("If-None-Match") == "*" and found is not None:
            raise Refusal(412, "PreconditionFailed")
        wanted = self.headers.get("If-Match")
        if wanted is not None and found is None:
            raise Refusal(404, "NoSuchKey")
        if wanted is not None and wanted != found["etag"]:
            raise Refusal(412, "PreconditionFailed")
        return found

    def do_get(self, name, _, __):
        with STATE.lock:
            found = self.checked(name)
        if found is None:
            raise Refusal(404, "NoSuchKey")
        headers = dict(found["headers"], ETag=found["etag"])
        total = len(found["body"])
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked:
            return 200, found["body"], headers
        first, last = int(asked[1]), min(int(asked[2]), total - 1)
        if first >= total:
            raise Refusal(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{total}"
        return 206, found["body"][first:last + 1], headers

    def do_put(self, name, _, body):
        with STATE.lock:
            self.checked(name)
            STATE.objects[name] = make(body, self.headers)
        return 200, b"", {"ETag": STATE.objects[name]["etag"]}

    def do_begin(self, name, _, __):
        with STATE.lock:
            identifier = f"up/load+{len(STATE.uploads)}="
            STATE.uploads[identifier] = {"name": name, "parts": {}, "headers": dict(self.headers.items())}
        return 200, f"<R><UploadId>{identifier}</UploadId></R>".encode(), {}

    def upload_of(self, query):
        found = STATE.uploads.get(urllib.parse.unquote(query["uploadId"]))
        if found is None:
            raise Refusal(404, "NoSuchUpload")
        return found

    def do_part(self, _, query, body):
        with STATE.lock:
            self.upload_of(query)["parts"][int(query["partNumber"])] = body
        return 200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}

    def do_copy(self, _, query, __):
        with STATE.lock:
            source = tuple(urllib.parse.unquote_to_bytes(self.headers["x-amz-copy-source"]).decode("latin-1")
                           .lstrip("/").split("/", 1))
            found = STATE.objects.get(source)
            if found is None:
                raise Refusal(404, "NoSuchKey")
            if found["etag"] != self.headers["x-amz-copy-source-if-match"]:
                raise Refusal(412, "PreconditionFailed")
            first, last = map(int, self.headers["x-amz-copy-source-range"].removeprefix("bytes=").split("-"))
            if len(found["body"]) <= LEAST_PART or last >= len(found["body"]):
                raise Refusal(400, "InvalidRequest")
            body = found["body"][first:last + 1]
            self.upload_of(query)["parts"][int(query["partNumber"])] = body
            STATE.counts["bytes_copied"] += len(body)
        return 200, f"<R><ETag>&quot;{hashlib.md5(body).hexdigest()}&quot;</ETag></R>".encode(), {}

    def do_complete(self, name, query, body):
        with STATE.lock:
            upload = self.upload_of(query)
            self.checked(name)
            space = "{http://s3.amazonaws.com/doc/2006-03-01/}"
            listed = [(int(part.find(space + "PartNumber").text), part.find(space + "ETag").text)
                      for part in xml.etree.ElementTree.fromstring(body)]
            parts = [upload["parts"][number] for number, _ in listed]
            if [f'"{hashlib.md5(part).hexdigest()}"' for part in parts] != [etag for _, etag in listed]:
                raise Refusal(400, "InvalidPart")
            if any(len(part) < LEAST_PART for part in parts[:-1]):
                raise Refusal(400, "EntityTooSmall")
            del STATE.uploads[urllib.parse.unquote(query["uploadId"])]
            whole = b"".join(parts)
            made = make(whole, upload["headers"], f'"{hashlib.md5(whole).hexdigest()}-{len(parts)}"')
            STATE.objects[name] = made
        return 200, f"<R><ETag>&quot;{made['etag'][1:-1]}&quot;</ETag></R>".encode(), {}

    def do_give_up(self, _, query, __):
        with STATE.lock:
            self.upload_of(query)
            del STATE.uploads[urllib.parse.unquote(query["uploadId"])]
        return 204, b"", {}


def obey(command, *words):
    with STATE.lock:
        if command == "load":
            with open(words[2], "rb") as file:
                STATE.objects[words[0], words[1]] = make(file.read(), {"Content-Type": "text/x-test", "x-amz-meta-owner": "me"})
        elif command == "save":
            if (words[0], words[1]) not in STATE.objects:
                return "none"
            with open(words[2], "wb") as file:
                file.write(STATE.objects[words[0], words[1]]["body"])
        elif command == "delete":
            STATE.objects.pop((words[0], words[1]), None)
        elif command == "fault":
            STATE.faults.append([words[0], words[1], int(words[2])])
        elif command == "calm":
            STATE.faults.clear()
        elif command == "headers":
            return json.dumps(STATE.objects[words[0], words[1]]["headers"])
        elif command == "require":
            STATE.token = words[0] if words else None
        elif command == "tls":
            return str(serve_encrypted(*words))
        elif command == "counts":
            counts = dict(STATE.counts, uploads_left=len(STATE.uploads), faults_left=sum(fault[2] for fault in STATE.faults))
            STATE.counts.clear()
            return json.dumps(counts)
        else:
            return f"{command}?"
    return "ok"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):
            super().handle_error(request, client_address)


def serve_encrypted(certificate):
    """The same by HTTPS, with a file that holds key and certificate; returns the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    encrypted = Server(("127.0.0.1", 0), Handler)
    encrypted.socket = context.wrap_socket(encrypted.socket, server_side=True)
    threading.Thread(target=encrypted.serve_forever, daemon=True).start()
    return encrypted.server_address[1]


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    for line in sys.stdin:
        print(obey(*line.split()), flush=True)
