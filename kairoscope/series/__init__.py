"""Many loads on one deployment: the search for what is sustained, and two that take turns.

`bounds` and `capacity` are pure, and so is `search`: a trial is a function there. `trials` makes
one of a run on a target; `page` shows what came out. `ab` has the turns, `driver` the deployment
that they run on.
"""
