"""Sends a review to the gateway and shows what is left of it: `python check.py review.md [REVISION]`."""

import http.client
import json
import sys
from pathlib import Path

review = Path(sys.argv[1]).read_text(encoding="utf-8")
revision = sys.argv[2] if len(sys.argv) > 2 else "HEAD"
body = {"answer": review, "route": "review", "repository": "code", "revision": revision}
connection = http.client.HTTPConnection("127.0.0.1", 8080)
connection.request("POST", "/v1/check", json.dumps(body), {"content-type": "application/json"})
reply = json.load(connection.getresponse())
if "error" in reply:
    sys.exit(reply["error"]["message"])
check = reply["grounding"]["checks"][0]
lines = [f"{reply['status']}: {check.get('detail', '')}".rstrip(": ")]
for issue in check["issues"]:
    why = [found["detail"] for found in issue["evidence"]] or [str(vote["reason"]) for vote in issue["votes"]]
    lines.append(f"- {issue['path']}: {issue['label'] or issue['reason']}, {issue['action']}. {'; '.join(why)}")
lines += ["", "What is left of the review:", "", reply.get("filtered", review)]
sys.stdout.write("\n".join(lines))
