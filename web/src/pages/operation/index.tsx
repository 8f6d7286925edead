// Operation, for admins: the gateway's health checks, and the audit log.

import "../../style/panel.css";
import "../../style/chart.css";
import "../../style/settings.css";
import "./operation.css";
import { Audit } from "./audit";
import { Health } from "./health";

export default function Operation() {
  return (
    <main class="plain operation">
      <h1>Operation</h1>
      <Health />
      <Audit />
    </main>
  );
}
