"""What people do with oscar-python, against the manager at the address that is given."""

import json
import os
import sys
import time

from oscar_python.client import Client

endpoint, kind, *credentials = sys.argv[1:]
options = {"cluster_id": "oscar-cluster", "endpoint": endpoint, "ssl": False}
if kind == "basic":
    options |= {"user": credentials[0], "password": credentials[1]}
else:
    options |= {"oidc_token": credentials[0]}
client = Client(options=options)


def expect(status, answer):
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    return answer.text


def wait_for(check, seconds=60):
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
    return found


with open("script.sh", "w") as script:
    script.write('#!/bin/sh\ncp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/out.txt"\necho copied\n')
with open("service.yaml", "w") as fdl:
    fdl.write(
        """
functions:
  oscar:
  - oscar-cluster:
      name: notebook
      memory: 256Mi
      cpu: '0.1'
      image: busybox
      script: script.sh
      log_level: CRITICAL
      input:
      - storage_provider: minio.default
        path: notebook/in
      output:
      - storage_provider: minio.default
        path: notebook/out
"""
    )

expect(200, client.health_check())
assert json.loads(expect(200, client.get_cluster_info()))["version"]
assert json.loads(expect(200, client.get_cluster_config()))["minio_provider"]["access_key"]
assert json.loads(expect(200, client.get_cluster_status()))["cluster"]["nodes_count"] == 1
assert json.loads(expect(200, client.list_services())) == []

expect(201, client.create_service("service.yaml"))
service = json.loads(expect(200, client.get_service("notebook")))
assert service["name"] == "notebook" and service["token"]
assert [each["name"] for each in json.loads(expect(200, client.list_services()))] == ["notebook"]

# With what the service left in its output directory as the answer, base64 as the client expects it.
answer = client.run_service("notebook", input="hello", timeout=60)
assert expect(200, answer) == "aGVsbG8="

storage = client.create_storage_client()
with open("picture.txt", "w") as picture:
    picture.write("pixels")
storage.upload_file("minio.default", "picture.txt", "notebook/in")


def succeeded():
    jobs = json.loads(expect(200, client.list_jobs("notebook")))["jobs"]
    return [name for name, job in jobs.items() if job["status"] == "Succeeded"]


(job,) = wait_for(succeeded)
files = storage.list_files_from_path("minio.default", "notebook/out")["Contents"]
assert "out/out.txt" in [each["Key"] for each in files]
os.mkdir("results")
storage.download_file("minio.default", "results", "notebook/out/out.txt")
with open("results/out.txt") as result:
    assert result.read() == "pixels"
assert "copied" in expect(200, client.get_job_logs("notebook", job))
expect(204, client.remove_job("notebook", job))
expect(204, client.remove_all_jobs("notebook"))
expect(200, client.get_deployment_status("notebook"))
expect(200, client.get_deployment_logs("notebook"))

expect(201, client.create_bucket("notebook-data"))
assert json.loads(expect(200, client.get_bucket("notebook-data")))["visibility"] == "private"
expect(204, client.update_bucket("notebook-data", "public"))
assert "notebook-data" in expect(200, client.list_buckets())
assert "X-Amz-Signature" in expect(200, client.presign_bucket("notebook-data", "a.txt", "upload"))
expect(204, client.delete_bucket("notebook-data"))

expect(200, client.get_metrics_summary())
expect(200, client.get_metrics_breakdown())
expect(200, client.get_service_metrics("notebook"))
assert json.loads(expect(200, client.get_federation("notebook"))) == {"topology": "none", "members": None}

service["memory"] = "128Mi"
expect(204, client.update_service("notebook", service))
assert json.loads(expect(200, client.get_service("notebook")))["memory"] == "128Mi"
expect(204, client.remove_service("notebook"))
assert json.loads(expect(200, client.list_services())) == []
print("all steps passed")
