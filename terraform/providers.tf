provider "aws" {
  region = var.region

  # On everything that bears tags, so that a bill or a forgotten resource tells whose it is.
  default_tags {
    tags = {
      Project    = "kairoscope"
      Deployment = var.name
      Experiment = var.experiment
      Owner      = var.owner
      Expires    = var.expires
      ManagedBy  = "terraform"
    }
  }
}
