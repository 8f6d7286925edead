// A banner for a new session in an untrusted folder that has settings: links to their review.

import { useEffect, useState } from "preact/hooks";
import { Icon } from "../parts/icon";
import { Link } from "../router";
import { may } from "../wire/login";
import { query, rest } from "../wire/rest";

interface Report {
  path: string;
  trusted: boolean;
  hooks: unknown[];
  mcp_servers: unknown[];
  environment: string[];
  permissions: string[];
}

const ASK_MS = 400;

export function Untrusted({ folder }: { folder: string }) {
  const [report, setReport] = useState<Report | null>(null);
  const asked = may("admin") && folder.startsWith("/") ? folder : "";
  useEffect(() => {
    setReport(null);
    if (!asked) return;
    let gone = false;
    const timer = setTimeout(() => {
      rest.get<Report>(`/v1/trust${query({ path: asked })}`).then(
        (found) => !gone && setReport(found),
        // The folder does not exist (yet): the form shows that error when it is submitted.
        () => undefined,
      );
    }, ASK_MS);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [asked]);
  if (!report || report.trusted) return null;
  const count = report.hooks.length + report.mcp_servers.length + report.environment.length + report.permissions.length;
  if (!count) return null;
  return (
    <p class="banner wait" role="status">
      <Icon name="lock" />
      <span>
        This folder has its own settings. They are off until you trust the folder.{" "}
        <Link to={`/app/settings${query({ trust: report.path })}`}>Review settings</Link>
      </span>
    </p>
  );
}
