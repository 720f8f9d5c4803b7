# Checks that the document at an address is valid OpenAPI 3.1.
import json
import sys
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

with urllib.request.urlopen(sys.argv[1], timeout=30) as answer:
    document = json.load(answer)
problems = list(OpenAPIV31SpecValidator(document).iter_errors())
for problem in problems[:50]:
    print("/".join(map(str, problem.absolute_path)) or "/", problem.message[:500])
print(f"{len(document['paths'])} paths, {len(problems)} problems")
sys.exit(bool(problems))
