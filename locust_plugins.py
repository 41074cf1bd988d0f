"""Makes `locust -f locustfiles/sessions.py --help` show soak's options.

Locust prints its help before it loads the locustfile, and imports one module before that: the one of this name. If the
package locust-plugins is installed, Locust finds that one and this stays unused.
"""

import sys

from soak.load.locust_help import load_locustfile_before_help

load_locustfile_before_help(sys.argv[1:])
